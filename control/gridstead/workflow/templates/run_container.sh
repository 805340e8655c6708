%%{function}() (
  %%{prepare} || exit
  set -- /bin/bash -c "$in_container" "$runtime" "$image" "$storage" %%{cache} %%{env_file}
%%{network}%%{said}  new_step
  job_environment%%{surroundings}
%%{exports}  start --job-name=%%{name} --export=ALL %%{options} \
    "$@" %%{words}
)
