module pointsman

go 1.26
