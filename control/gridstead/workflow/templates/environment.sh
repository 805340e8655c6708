  if [ -f "$storage/env" ]; then mapfile -t gridstead_lines <"$storage/env"; fi
