package check

var toolingRules = []rule{}
