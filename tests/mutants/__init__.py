"""The safety rules made to say yes, one by one: which test notices?"""
