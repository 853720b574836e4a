package check

var routeRules = []rule{}
