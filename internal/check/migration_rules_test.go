package check

var migrationRules = []rule{}
