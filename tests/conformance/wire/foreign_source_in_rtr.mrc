# The source is checked before the state: a stranger's acknowledgement to a QP in RTR counts as foreign
requires VAL-013, VAL-014, CTL-002
knobs state=rtr

0    < sack cack=0xFFFFFF ip.src=0x20010db8000100000000000000000063
1us  = count peer=1
1us  = count state=0
