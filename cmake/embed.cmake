# cmake -DFILE=IN -DNAME=symbol -DOUTPUT=OUT.c -P cmake/embed.cmake: the bytes of a file as a C array, NAME and NAME_n.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUTPUT} "#include <stddef.h>
extern const unsigned char ${NAME}[];
extern const size_t ${NAME}_n;
const unsigned char ${NAME}[] = {
${hex}
};
const size_t ${NAME}_n = sizeof ${NAME};
")
