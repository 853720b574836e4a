package check

var schedulingRules = []rule{}
