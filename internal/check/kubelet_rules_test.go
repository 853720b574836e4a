package check

var kubeletRules = []rule{}
