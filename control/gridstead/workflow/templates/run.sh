%%{function}() (
%%{network}%%{record}  new_step
  job_environment%%{outer_variables}
%%{exports}  start --job-name=%%{name} --export=ALL \
    %%{options} \
    %%{around}%%{enter}%%{shell} -c %%{command}
)
