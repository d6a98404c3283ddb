"""Tiles of a matrix product in PTX: tensor cores by warps (`mma`) and warp groups (`wgmma`), copies by TMA."""
