"""Pure folds over the log and the engines that host them."""
