package check

var identityRules = []rule{}
