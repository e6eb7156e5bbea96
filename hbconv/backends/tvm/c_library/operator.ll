; A torch operator around the function of all methods, by torch's C interface, which is stable.
; It checks whatever torch hands over, so that the function may trust it: dtype, shape, memory
; layout and number of rows. What is wrong becomes a message, and that the exception of torch.

declare i32 @aoti_torch_device_type_cpu()
declare i32 @aoti_torch_device_type_meta()
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_size(ptr, i64, ptr)
declare i32 @aoti_torch_is_contiguous(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_copy_(ptr, ptr, i32)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare i32 @aoti_torch_library_init_fragment(ptr, ptr, i32, ptr)
declare i32 @aoti_torch_library_init_impl(ptr, ptr, ptr, i32, ptr)
declare i32 @aoti_torch_library_def(ptr, ptr)
declare i32 @torch_library_impl(ptr, ptr, ptr, i64)
declare i32 @torch_get_mutable_data_ptr(ptr, ptr)
declare i32 @torch_get_const_data_ptr(ptr, ptr)
declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)
; std::__throw_runtime_error(const char *) of the C++ library that torch is linked with.
declare void @_ZSt21__throw_runtime_errorPKc(ptr)

; How many rows a matrix has; -1 for a tensor of another dtype, width or number of dimensions.
define internal i64 @rows_of(ptr %given, i32 %dtype, i64 %width) {
start:
  %own_at = alloca i32
  %size_at = alloca i64
  %dtype_fails = call i32 @aoti_torch_get_dtype(ptr %given, ptr %own_at)
  %dim_fails = call i32 @aoti_torch_get_dim(ptr %given, ptr %size_at)
  %fails = or i32 %dtype_fails, %dim_fails
  %is_known = icmp eq i32 %fails, 0
  br i1 %is_known, label %look, label %other
look:
  %own = load i32, ptr %own_at
  %dim = load i64, ptr %size_at
  %is_typed = icmp eq i32 %own, %dtype
  %is_matrix = icmp eq i64 %dim, 2
  %is_alike = and i1 %is_typed, %is_matrix
  br i1 %is_alike, label %measure, label %other
measure:
  %width_fails = call i32 @aoti_torch_get_size(ptr %given, i64 1, ptr %size_at)
  %columns = load i64, ptr %size_at
  %rows_fails = call i32 @aoti_torch_get_size(ptr %given, i64 0, ptr %size_at)
  %rows = load i64, ptr %size_at
  %size_fails = or i32 %width_fails, %rows_fails
  %is_measured = icmp eq i32 %size_fails, 0
  %is_as_wide = icmp eq i64 %columns, %width
  %fits = and i1 %is_measured, %is_as_wide
  %found = select i1 %fits, i64 %rows, i64 -1
  ret i64 %found
other:
  ret i64 -1
}

; Make a tensor in C order, of these sizes behind its rows; NULL where there is no memory.
define internal ptr @make(i64 %dim, ptr %sizes, ptr %strides, i32 %dtype, i32 %device) {
start:
  %made_at = alloca ptr
  store ptr null, ptr %made_at
  %fails = call i32 @aoti_torch_empty_strided(i64 %dim, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 0, ptr %made_at)
  %made = load ptr, ptr %made_at
  ret ptr %made
}

; Replace a matrix by one in C order; whether it is one.
define internal i1 @lay_out(ptr %given_at, ptr %sizes, ptr %strides, i32 %dtype) {
start:
  %is_at = alloca i8
  %given = load ptr, ptr %given_at
  %look_fails = call i32 @aoti_torch_is_contiguous(ptr %given, ptr %is_at)
  %is = load i8, ptr %is_at
  %is_laid_out = icmp ne i8 %is, 0
  br i1 %is_laid_out, label %done, label %copy
copy:
  %device = call i32 @aoti_torch_device_type_cpu()
  %made = call ptr @make(i64 2, ptr %sizes, ptr %strides, i32 %dtype, i32 %device)
  %is_none = icmp eq ptr %made, null
  br i1 %is_none, label %failed, label %fill
fill:
  %copy_fails = call i32 @aoti_torch_copy_(ptr %made, ptr %given, i32 0)
  %delete_fails = call i32 @aoti_torch_delete_tensor_object(ptr %given)
  store ptr %made, ptr %given_at
  %is_filled = icmp eq i32 %copy_fails, 0
  ret i1 %is_filled
done:
  ret i1 true
failed:
  ret i1 false
}

; The address of a tensor. One without elements has none, and is never read or written.
define internal ptr @address_of(ptr %tensor, i1 %is_written) {
start:
  %found_at = alloca ptr
  store ptr null, ptr %found_at
  br i1 %is_written, label %written, label %read
written:
  %written_fails = call i32 @torch_get_mutable_data_ptr(ptr %tensor, ptr %found_at)
  br label %look
read:
  %read_fails = call i32 @torch_get_const_data_ptr(ptr %tensor, ptr %found_at)
  br label %look
look:
  %found = load ptr, ptr %found_at
  %is_none = icmp eq ptr %found, null
  %address = select i1 %is_none, ptr @empty, ptr %found
  ret ptr %address
}

define internal void @delete_all(ptr %tensors, i64 %count) {
start:
  br label %head
head:
  %i = phi i64 [ 0, %start ], [ %next, %last ]
  %is_left = icmp slt i64 %i, %count
  br i1 %is_left, label %look, label %done
look:
  %at = getelementptr ptr, ptr %tensors, i64 %i
  %tensor = load ptr, ptr %at
  %is_none = icmp eq ptr %tensor, null
  br i1 %is_none, label %last, label %delete
delete:
  %fails = call i32 @aoti_torch_delete_tensor_object(ptr %tensor)
  br label %last
last:
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; Torch's stack gives the inputs, which this owns then, and takes the answers.
define internal void @run(ptr %stack, i64 %inputs, i64 %outputs, i32 %device) {
start:
  %given = alloca ptr, i64 %inputs
  %answers = alloca ptr, i64 %outputs
  %inputs_bytes = mul i64 %inputs, 8
  %outputs_bytes = mul i64 %outputs, 8
  call ptr @memcpy(ptr %given, ptr %stack, i64 %inputs_bytes)
  call ptr @memset(ptr %answers, i32 0, i64 %outputs_bytes)
  %wrong = call ptr @answer(ptr %given, ptr %answers, i32 %device)
  call void @delete_all(ptr %given, i64 %inputs)
  %is_well = icmp eq ptr %wrong, null
  br i1 %is_well, label %give, label %raise
give:
  call ptr @memcpy(ptr %stack, ptr %answers, i64 %outputs_bytes)
  ret void
raise:
  call void @delete_all(ptr %answers, i64 %outputs)
  call void @_ZSt21__throw_runtime_errorPKc(ptr %wrong)
  unreachable
}

declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)

define internal void @on_cpu(ptr %stack, i64 %inputs, i64 %outputs) {
  %device = call i32 @aoti_torch_device_type_cpu()
  call void @run(ptr %stack, i64 %inputs, i64 %outputs, i32 %device)
  ret void
}

define internal void @on_meta(ptr %stack, i64 %inputs, i64 %outputs) {
  %device = call i32 @aoti_torch_device_type_meta()
  call void @run(ptr %stack, i64 %inputs, i64 %outputs, i32 %device)
  ret void
}

; Tell torch of the operator. The namespace is of the library's content, so an operator that is
; there already comes from a copy of this file, and stays.
define internal i32 @declare_in(ptr %namespace, ptr %schema, ptr %name) {
start:
  %library_at = alloca ptr
  %fails = call i32 @aoti_torch_library_init_fragment(ptr %namespace, ptr %name, i32 0, ptr %library_at)
  %is_new = icmp eq i32 %fails, 0
  br i1 %is_new, label %define, label %done
define:
  %library = load ptr, ptr %library_at
  %define_fails = call i32 @aoti_torch_library_def(ptr %library, ptr %schema)
  ret i32 %define_fails
done:
  ret i32 %fails
}

define internal i32 @implement(ptr %namespace, ptr %device, ptr %name, ptr %function, i64 %version) {
start:
  %library_at = alloca ptr
  %fails = call i32 @aoti_torch_library_init_impl(ptr %namespace, ptr %device, ptr %name, i32 0, ptr %library_at)
  %is_new = icmp eq i32 %fails, 0
  br i1 %is_new, label %implement, label %done
implement:
  %library = load ptr, ptr %library_at
  %implement_fails = call i32 @torch_library_impl(ptr %library, ptr %name, ptr %function, i64 %version)
  ret i32 %implement_fails
done:
  ret i32 %fails
}
