package check

var skewRules = []rule{}
