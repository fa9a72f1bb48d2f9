"""What every file may use: errors, words, units of time, plain values."""
