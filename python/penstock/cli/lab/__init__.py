"""`penstock lab`: storage systems on this machine."""
