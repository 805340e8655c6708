
# Runs rclone with the variables in a file, which define the remote "store".
in_store() ( # file, words
  mapfile -t variables <"$1"
  export "${variables[@]}" && exec rclone --config /dev/null "${@:2}"
)
