module ringway/peers

go 1.22
