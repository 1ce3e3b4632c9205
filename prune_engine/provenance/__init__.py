"""What a result rests on: the policy that decided, its run, the machine, and whether it still holds."""
