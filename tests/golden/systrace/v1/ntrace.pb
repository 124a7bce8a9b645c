Â>7Ú›«Ï¨–Á("@Mb
hbm_idx1b

usage_typetensorshpÂ>`Î¡›«Ï¨–Á("@Mb
allocated_bytes4096b
usage_type_total_bytes4096b
total_bytes5120hpÂ>4Â¥›«Ï¨–Á(@Mb
mem_typedeviceb
size4096hpÂ>’µ›«Ï¨–Á(@MhpÂ>!ú¼›«Ï¨–Á(@Mb
model_id7hpÂ>;ðÂëÜ(@Mb
exec_id1b
nc_timestamp_ns
1000006000hpÂ>-¨ÚëÜ(@Mb
nc_timestamp_ns
1000009000hpÂ>dœÞëÜ(@Mb
exec_id1b
nc_timestamp_ns
1000009500b'
cpu_timestamp_ns1766072156592469982hpÂ>Òó›«Ï¨–Á(@MhpÂ>*ºû›«Ï¨–Á2my_event@Mb
noteq"uotehpÂ>#¢ƒœ«Ï¨–Á(<@Mb

worker_gid3hpÂ>Š‹œ«Ï¨–Á(	@Mb

size64hpª?È>Ø>à>è>