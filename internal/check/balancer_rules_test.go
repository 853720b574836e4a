package check

var balancerRules = []rule{}
