module orsweb.example/play

go 1.19
