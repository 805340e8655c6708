
declare -A rounds_of=() # of each loop: the number of its rounds so far

# Begins a round of a loop. After 99 rounds, only rounds whose number has at most two significant
# digits are shown. So the number of markers grows with the logarithm of the number of rounds.
next_round() { # number of the loop
  gridstead_number=$((gridstead_number + 1))
  gridstead_round=$gridstead_outer_round$gridstead_number
  gridstead_hidden=$gridstead_outer_hidden
  rounds_of[$1]=$((${rounds_of[$1]:-0} + 1))
  if [[ ${rounds_of[$1]} == ??*[1-9]* ]]; then gridstead_hidden=yes; fi
}
