%%{function}() (
  %%{prepare} || exit
  set -- /bin/bash -c "$in_container" "${TMPDIR:-/tmp}" "$runtime" "$image" \
    "$storage" %%{cache} %%{env_file} "$UID"%%{work_dir}
%%{network}%%{record}  new_step
  job_environment%%{outer_variables}
%%{exports}  start --job-name=%%{name} --export=ALL \
    %%{options} \
    "$@" \
    %%{words}
)
