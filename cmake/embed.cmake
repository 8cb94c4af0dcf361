# kiln_embed(TARGET SYMBOL FILE): puts FILE's bytes into TARGET as
#     extern const unsigned char SYMBOL[]; extern const unsigned long SYMBOL_size;
# with the assembler's directive .incbin. This needs no generated C code.
function(kiln_embed target symbol file)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embed_${symbol}.S)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
    .section .rodata.embedded, "a", %progbits
    .balign 16
    .globl @symbol@
    .hidden @symbol@
    .type @symbol@, %object
@symbol@:
    .incbin "@file@"
.Lend_@symbol@:
    .size @symbol@, . - @symbol@
    .byte 0
    .balign 8
    .globl @symbol@_size
    .hidden @symbol@_size
    .type @symbol@_size, %object
@symbol@_size:
    .quad .Lend_@symbol@ - @symbol@
    .size @symbol@_size, 8
    .section .note.GNU-stack, "", %progbits
]])
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${out})
endfunction()
