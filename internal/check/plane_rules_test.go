package check

var planeRules = []rule{}
