
echo "gridstead: sending the output"
send_output%%{link}
