# A routing header with segments left does not end here
requires SRH-004, VAL-003
knobs srv6

0    < write_only psn=0 len=64 a srh=1
1us  = count l3_dst=1
