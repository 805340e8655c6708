%%{function}() (
%%{network}%%{said}  new_step
  job_environment%%{surroundings}
%%{exports}  start --job-name=%%{name} --export=ALL %%{options} \
    %%{around}%%{enter}%%{shell} -c %%{command}
)
