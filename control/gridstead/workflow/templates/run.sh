%%{function}() (
%%{network}%%{said}  job_environment%%{surroundings}
%%{exports}  %%{start} --job-name=%%{name} --export=ALL --immediate=%%{patience} %%{options} \
    %%{around}%%{enter}%%{shell} -c %%{command}
)
