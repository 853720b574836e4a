package check

var volumeRules = []rule{}
