ls -lR -- "$storage/input"
find "$storage/input" -depth ! -type l -exec chmod %%{mode} {} +
