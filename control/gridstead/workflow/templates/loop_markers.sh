
# Begins a round of a loop. After 99 rounds in the whole job, only rounds whose number has at most
# two significant digits are shown. So the number of markers grows with the logarithm of the number
# of rounds.
next_round() {
  gridstead_number=$((gridstead_number + 1))
  gridstead_round=$gridstead_outer_round$gridstead_number
  gridstead_hidden=$gridstead_outer_hidden
  gridstead_total=$((gridstead_total + 1))
  if [[ $gridstead_total == ??*[1-9]* ]]; then gridstead_hidden=yes; fi
}
