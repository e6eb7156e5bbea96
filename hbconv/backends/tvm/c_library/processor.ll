; Whether this processor of x86-64 has all instructions of some masks. It is asked once: under a
; hypervisor, each question takes a microsecond. Systems that save no wide registers do not count.

@processor = internal global i32 -1

define internal { i32, i32, i32, i32 } @ask(i32 %leaf) {
  %told = call { i32, i32, i32, i32 } asm sideeffect "xchgq %rbx, ${1:q}\0Acpuid\0Axchgq %rbx, ${1:q}", "={ax},=&r,={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %leaf, i32 0)
  ret { i32, i32, i32, i32 } %told
}

; Of leaf 1 the word ecx, of leaf 7 the words ebx and ecx, and the registers that are saved.
define internal i1 @has_all(i32 %mask_1, i32 %mask_7, i32 %mask_7_more, i32 %saved) {
start:
  %none = call { i32, i32, i32, i32 } @ask(i32 0)
  %most = extractvalue { i32, i32, i32, i32 } %none, 0
  %is_old = icmp ult i32 %most, 7
  br i1 %is_old, label %no, label %look
look:
  %one = call { i32, i32, i32, i32 } @ask(i32 1)
  %c_1 = extractvalue { i32, i32, i32, i32 } %one, 2
  %found_1 = and i32 %c_1, %mask_1
  %fits_1 = icmp eq i32 %found_1, %mask_1
  %seven = call { i32, i32, i32, i32 } @ask(i32 7)
  %b_7 = extractvalue { i32, i32, i32, i32 } %seven, 1
  %found_7 = and i32 %b_7, %mask_7
  %fits_7 = icmp eq i32 %found_7, %mask_7
  %c_7 = extractvalue { i32, i32, i32, i32 } %seven, 2
  %found_7_more = and i32 %c_7, %mask_7_more
  %fits_7_more = icmp eq i32 %found_7_more, %mask_7_more
  %fits_some = and i1 %fits_1, %fits_7
  %fits = and i1 %fits_some, %fits_7_more
  br i1 %fits, label %system, label %no
system:
  ; Only a processor with the bit OSXSAVE of leaf 1 knows this instruction; mask 1 has the bit.
  %state = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %kept = extractvalue { i32, i32 } %state, 0
  %found_kept = and i32 %kept, %saved
  %is_kept = icmp eq i32 %found_kept, %saved
  ret i1 %is_kept
no:
  ret i1 false
}

define internal i1 @runs_here_by(i32 %mask_1, i32 %mask_7, i32 %mask_7_more, i32 %saved) {
start:
  %known = load atomic i32, ptr @processor monotonic, align 4
  %is_known = icmp sge i32 %known, 0
  br i1 %is_known, label %tell, label %find
tell:
  %told = icmp ne i32 %known, 0
  ret i1 %told
find:
  %found = call i1 @has_all(i32 %mask_1, i32 %mask_7, i32 %mask_7_more, i32 %saved)
  %kept = zext i1 %found to i32
  store atomic i32 %kept, ptr @processor monotonic, align 4
  ret i1 %found
}
