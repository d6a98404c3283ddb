"""What schedule and codegen both ask about a kernel."""
