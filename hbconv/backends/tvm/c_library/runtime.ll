; What every library that is made without a C compiler needs: runtime.c has the same in C.
; LLVM writes code for it as it stands, so it is written as it shall run.

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @strcmp(ptr, ptr)

@empty = internal constant [1 x i8] zeroinitializer

; Texts are sorted by their bytes; a missing text is the empty one; -1 for an unknown text.
; An entry is where a text begins among all, and its code.
define internal i32 @code_of(ptr %texts, ptr %entries, i32 %count, ptr %given) {
start:
  %is_missing = icmp eq ptr %given, null
  %text = select i1 %is_missing, ptr @empty, ptr %given
  br label %head
head:
  %low = phi i32 [ 0, %start ], [ %next_low, %narrow ]
  %high = phi i32 [ %count, %start ], [ %next_high, %narrow ]
  %is_open = icmp slt i32 %low, %high
  br i1 %is_open, label %look, label %unknown
look:
  %sum = add i32 %low, %high
  %middle = lshr i32 %sum, 1
  %place = zext i32 %middle to i64
  %begin_at = getelementptr { i32, i32 }, ptr %entries, i64 %place
  %begin = load i32, ptr %begin_at
  %offset = zext i32 %begin to i64
  %known = getelementptr i8, ptr %texts, i64 %offset
  %order = call i32 @strcmp(ptr %text, ptr %known)
  %is_found = icmp eq i32 %order, 0
  br i1 %is_found, label %found, label %narrow
narrow:
  %is_before = icmp slt i32 %order, 0
  %after = add i32 %middle, 1
  %next_low = select i1 %is_before, i32 %low, i32 %after
  %next_high = select i1 %is_before, i32 %middle, i32 %high
  br label %head
found:
  %code_at = getelementptr { i32, i32 }, ptr %entries, i64 %place, i32 1
  %code = load i32, ptr %code_at
  ret i32 %code
unknown:
  ret i32 -1
}

; A code that the caller found itself: -1, or below the end of its vocabulary.
define internal i32 @code_within(i64 %code, i64 %end, ptr %status) {
start:
  %after = add i64 %code, 1
  %is_known = icmp ule i64 %after, %end
  br i1 %is_known, label %known, label %unknown
known:
  %found = trunc i64 %code to i32
  ret i32 %found
unknown:
  store i32 -4, ptr %status
  ret i32 -1
}

; Whether a byte is not 0: eight at a time, then those that are left.
define internal i1 @any(ptr %flags, i64 %count) {
start:
  %whole = and i64 %count, -8
  br label %words
words:
  %i = phi i64 [ 0, %start ], [ %next_i, %word ]
  %has_word = icmp slt i64 %i, %whole
  br i1 %has_word, label %word, label %bytes
word:
  %word_at = getelementptr i8, ptr %flags, i64 %i
  %eight = load i64, ptr %word_at, align 1
  %next_i = add i64 %i, 8
  %is_set = icmp ne i64 %eight, 0
  br i1 %is_set, label %yes, label %words
bytes:
  %j = phi i64 [ %i, %words ], [ %next_j, %byte ]
  %has_byte = icmp slt i64 %j, %count
  br i1 %has_byte, label %byte, label %no
byte:
  %byte_at = getelementptr i8, ptr %flags, i64 %j
  %one = load i8, ptr %byte_at
  %next_j = add i64 %j, 1
  %is_one = icmp ne i8 %one, 0
  br i1 %is_one, label %yes, label %bytes
yes:
  ret i1 true
no:
  ret i1 false
}
