if ((code)); then action=copy; fi # a failed job deletes nothing in the store
echo "gridstead: sending the output"
