stout lock /q -- sleep 100
echo after $?
sleep 1
echo end
