package check

var credentialRules = []rule{}
