// In which order tiles are computed.
#pragma once

// Tile rows in groups of group_m, so that blocks that run together share columns of B and rows of A; group_m 1 is row by row.
__device__ __forceinline__ void raster(int tile, int rows, int columns, int group_m, int& row, int& column) {
  const int group = tile / (group_m * columns), first = group * group_m;
  const int height = min(rows - first, group_m), within = tile - group * group_m * columns;
  row = first + within % height;
  column = within / height;
}
