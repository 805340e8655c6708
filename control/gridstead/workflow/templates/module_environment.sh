  local gridstead_each
  for gridstead_each in "${module_variables[@]}"; do
    if [[ $gridstead_each != @* ]]; then
      gridstead_lines+=("$gridstead_each")
    elif [[ -f ${gridstead_each#@} ]]; then
      mapfile -t -O "${#gridstead_lines[@]}" gridstead_lines <"${gridstead_each#@}"
    fi
  done
