"""The passes of code generation, one file each; `pipeline` has their order."""
