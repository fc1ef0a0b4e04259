// What kernels made by pliant are written in.  No headers: it compiles with any NVRTC, and with a C++ compiler on the
// CPU where the few names of CUDA's that stand below are defined first.

#define PL_DEVICE __device__ __forceinline__

extern __shared__ __align__(16) unsigned char pl_shared[];

// ---------------------------------------------------------------------------------------------- 16-bit floats
// Stored as such, computed in float.

struct __align__(2) pl_f16 { unsigned short bits; };
struct __align__(2) pl_bf16 { unsigned short bits; };

PL_DEVICE float pl_load(float x) { return x; }
PL_DEVICE float pl_load(pl_bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
PL_DEVICE pl_bf16 pl_to_bf16(float x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = x != x ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
  pl_bf16 result = {(unsigned short)(rounded >> 16)};
  return result;
}
#ifdef __CUDACC__
PL_DEVICE float pl_load(pl_f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
PL_DEVICE pl_f16 pl_to_f16(float x) {
  pl_f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
#else  // whoever compiles this for something else gives the conversions
PL_DEVICE float pl_load(pl_f16 x) { return cuda_float_of_half(x.bits); }
PL_DEVICE pl_f16 pl_to_f16(float x) {
  pl_f16 result = {cuda_half_of_float(x)};
  return result;
}
#endif

// A double rounded to odd: rounding it to 16 bits afterwards gives what one rounding would have given.
PL_DEVICE float pl_round_to_odd(double x) {
  const float near = (float)x;
  const double back = (double)near;
  if (back == x || x != x) return near;
  return __uint_as_float((__float_as_uint(near) - (fabs(back) > fabs(x) ? 1u : 0u)) | 1u);
}

// ---------------------------------------------------------------------------------------------- integers
// They wrap, and nothing traps: a divisor 0 counts as 1 (a check reports it elsewhere).

template <class T> struct pl_unsigned_of { typedef T type; };
template <> struct pl_unsigned_of<signed char> { typedef unsigned char type; };
template <> struct pl_unsigned_of<short> { typedef unsigned short type; };
template <> struct pl_unsigned_of<int> { typedef unsigned type; };
template <> struct pl_unsigned_of<long long> { typedef unsigned long long type; };

template <class T> struct pl_limits {
  typedef typename pl_unsigned_of<T>::type U;
  static constexpr bool is_signed = (T)-1 < (T)0;
  static constexpr int bits = 8 * (int)sizeof(T);
  static constexpr T max = is_signed ? (T)((U)~(U)0 >> 1) : (T)~(U)0;
  static constexpr T min = is_signed ? (T)(-max - 1) : (T)0;
};

// At least 32 bits, so that C's promotion to int cannot overflow.
template <class T> PL_DEVICE unsigned long long pl_wide(T x) { return (unsigned long long)(long long)x; }
template <class T> PL_DEVICE T pl_iadd(T a, T b) { return (T)(pl_wide(a) + pl_wide(b)); }
template <class T> PL_DEVICE T pl_isub(T a, T b) { return (T)(pl_wide(a) - pl_wide(b)); }
template <class T> PL_DEVICE T pl_imul(T a, T b) { return (T)(pl_wide(a) * pl_wide(b)); }
template <class T> PL_DEVICE T pl_ineg(T a) { return (T)(0ull - pl_wide(a)); }
template <class T> PL_DEVICE T pl_iabs(T a) { return a < (T)0 ? pl_ineg<T>(a) : a; }
template <class T> PL_DEVICE T pl_imax(T a, T b) { return a > b ? a : b; }
template <class T> PL_DEVICE T pl_imin(T a, T b) { return a < b ? a : b; }
template <class T> PL_DEVICE T pl_sign(T a) {
  if (a > (T)0) return (T)1;
  return pl_limits<T>::is_signed && a < (T)0 ? (T)-1 : a;
}

template <class T> PL_DEVICE T pl_itruncdiv(T a, T b) {
  if (pl_limits<T>::is_signed && b == (T)-1) return pl_ineg<T>(a);
  return (T)(a / (b == (T)0 ? (T)1 : b));
}
template <class T> PL_DEVICE T pl_itruncmod(T a, T b) {
  if (pl_limits<T>::is_signed && b == (T)-1) return (T)0;
  return (T)(a % (b == (T)0 ? (T)1 : b));
}
template <class T> PL_DEVICE T pl_ifloordiv(T a, T b) {
  const T quotient = pl_itruncdiv<T>(a, b), rest = pl_itruncmod<T>(a, b);
  return rest != (T)0 && (rest < (T)0) != (b < (T)0) ? (T)(quotient - 1) : quotient;
}
template <class T> PL_DEVICE T pl_imod(T a, T b) {
  const T rest = pl_itruncmod<T>(a, b);
  return rest != (T)0 && (rest < (T)0) != (b < (T)0) ? (T)(rest + b) : rest;
}

// Shifts by the width or more give what repeated shifts by one give.
template <class T> PL_DEVICE T pl_shl(T a, T b) {
  return b < (T)0 || b >= (T)pl_limits<T>::bits ? (T)0 : (T)(pl_wide(a) << b);
}
template <class T> PL_DEVICE T pl_shr(T a, T b) {
  const bool far = b < (T)0 || b >= (T)pl_limits<T>::bits;
  if (pl_limits<T>::is_signed) return (T)(a >> (far ? pl_limits<T>::bits - 1 : (int)b));
  return far ? (T)0 : (T)(a >> b);
}

// A negative exponent gives the truncated power: 0 except for bases 1 and -1.
PL_DEVICE long long pl_ipow(long long x, long long n) {
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
  long long result = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = pl_imul<long long>(result, x);
    x = pl_imul<long long>(x, x);
  }
  return result;
}

// Floats to integers truncate and saturate; NaN gives 0.
template <class T, class F> PL_DEVICE T pl_to_int(F x) {
  if (x != x) return (T)0;
  if (x <= (F)pl_limits<T>::min) return pl_limits<T>::min;
  if (x >= (F)pl_limits<T>::max) return pl_limits<T>::max;
  return (T)x;
}

// ---------------------------------------------------------------------------------------------- floats

PL_DEVICE float pl_infinity() { return __int_as_float(0x7f800000); }
PL_DEVICE float pl_nan() { return __int_as_float(0x7fc00000); }

#define PL_FUNCTION(name, f32, f64)            \
  PL_DEVICE float name(float x) { return f32(x); } \
  PL_DEVICE double name(double x) { return f64(x); }
#define PL_FUNCTION2(name, f32, f64)                        \
  PL_DEVICE float name(float x, float y) { return f32(x, y); } \
  PL_DEVICE double name(double x, double y) { return f64(x, y); }

PL_FUNCTION(pl_abs, fabsf, fabs)
PL_FUNCTION(pl_floor, floorf, floor)
PL_FUNCTION(pl_ceil, ceilf, ceil)
PL_FUNCTION(pl_trunc, truncf, trunc)
PL_FUNCTION(pl_round, rintf, rint)
PL_FUNCTION(pl_sqrt, sqrtf, sqrt)
PL_FUNCTION(pl_exp, expf, exp)
PL_FUNCTION(pl_exp2, exp2f, exp2)
PL_FUNCTION(pl_expm1, expm1f, expm1)
PL_FUNCTION(pl_log, logf, log)
PL_FUNCTION(pl_log2, log2f, log2)
PL_FUNCTION(pl_log10, log10f, log10)
PL_FUNCTION(pl_log1p, log1pf, log1p)
PL_FUNCTION(pl_sin, sinf, sin)
PL_FUNCTION(pl_cos, cosf, cos)
PL_FUNCTION(pl_tan, tanf, tan)
PL_FUNCTION(pl_asin, asinf, asin)
PL_FUNCTION(pl_acos, acosf, acos)
PL_FUNCTION(pl_atan, atanf, atan)
PL_FUNCTION(pl_sinh, sinhf, sinh)
PL_FUNCTION(pl_cosh, coshf, cosh)
PL_FUNCTION(pl_tanh, tanhf, tanh)
PL_FUNCTION(pl_asinh, asinhf, asinh)
PL_FUNCTION(pl_acosh, acoshf, acosh)
PL_FUNCTION(pl_atanh, atanhf, atanh)
PL_FUNCTION(pl_erf, erff, erf)
PL_FUNCTION(pl_normcdf, normcdff, normcdf)
PL_FUNCTION2(pl_pow, powf, pow)
PL_FUNCTION2(pl_fmod, fmodf, fmod)
PL_FUNCTION2(pl_atan2, atan2f, atan2)
PL_FUNCTION2(pl_copysign, copysignf, copysign)
PL_DEVICE float pl_fma(float a, float b, float c) { return fmaf(a, b, c); }
PL_DEVICE double pl_fma(double a, double b, double c) { return fma(a, b, c); }
PL_DEVICE float pl_product(float a, float b) { return __fmul_rn(a, b); }
PL_DEVICE double pl_product(double a, double b) { return __dmul_rn(a, b); }

// NaN on either side gives NaN, and -0.0 is below 0.0.
template <class T> PL_DEVICE bool pl_negative(T a) { return pl_copysign((T)1, a) < (T)0; }
template <class T> PL_DEVICE T pl_fmax(T a, T b) { return a > b || a != a || (a == b && !pl_negative(a)) ? a : b; }
template <class T> PL_DEVICE T pl_fmin(T a, T b) { return a < b || a != a || (a == b && pl_negative(a)) ? a : b; }
// Of a limit that equals it, a stays: so does the sign of its zero.
template <class T> PL_DEVICE T pl_clamp_min(T a, T low) { return a < low || low != low ? low : a; }
template <class T> PL_DEVICE T pl_clamp_max(T a, T high) { return a > high || high != high ? high : a; }
template <class T> PL_DEVICE T pl_fsign(T a) { return a > (T)0 ? (T)1 : a < (T)0 ? (T)-1 : a + (T)0; }
template <class T> PL_DEVICE T pl_sigmoid(T x) { return (T)1 / ((T)1 + pl_exp(-x)); }
template <class T> PL_DEVICE T pl_softplus(T x) { return pl_fmax<T>(x, (T)0) + pl_log1p(pl_exp(-pl_abs(x))); }
// By the normal distribution, which keeps its digits where 1 + erf(x) cancels; infinity * 0 is meant to be 0.
template <class T> PL_DEVICE T pl_gelu(T x) {
  const T below = pl_normcdf(x);
  return below == (T)0 ? -(T)0 : x * below;
}
// x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)).  The exponent is computed with its rounding errors, which exp
// would magnify; the products are ones that the compiler must not fuse with sums.
template <class T> PL_DEVICE T pl_gelu_tanh(T x) {
  if (pl_abs(x) > (T)40) return x > (T)0 ? x : -(T)0;
  const double cubic = 0.07135481627260025, linear = 1.5957691216057308;
  const T a = (T)cubic, a_low = (T)(cubic - (double)a), c = (T)linear, c_low = (T)(linear - (double)c);
  const T s = pl_product(x, x), s_low = pl_fma(x, x, -s);
  const T p = pl_product(a, s), p_low = pl_fma(a, s, -p);
  const T w = p + c, part = w - p;
  const T w_low = ((p - (w - part)) + (c - part)) + (p_low + a * s_low + a_low * s + c_low);
  const T u = pl_product(x, w), u_low = pl_fma(x, w, -u) + x * w_low;
  const T gate = (T)1 / ((T)1 + pl_exp(-u) * ((T)1 - u_low));
  return gate == (T)0 ? -(T)0 : x * gate;
}
// The sign of the divisor, as in Python; a zero has it too.
template <class T> PL_DEVICE T pl_fmodulo(T x, T y) {
  const T rest = pl_fmod(x, y);
  if (rest == (T)0) return pl_copysign((T)0, y);
  return (rest < (T)0) != (y < (T)0) ? rest + y : rest;
}
// numpy's floor_divide: exact multiples first, so that rounding of the quotient cannot pass an integer.
template <class T> PL_DEVICE T pl_ffloordiv(T x, T y) {
  if (y == (T)0) return x / y;
  const T rest = pl_fmod(x, y);
  T quotient = (x - rest) / y;
  if (rest != (T)0 && (rest < (T)0) != (y < (T)0)) quotient -= (T)1;
  if (quotient == (T)0) return pl_copysign((T)0, x / y);
  const T whole = pl_floor(quotient);
  return quotient - whole > (T)0.5 ? whole + (T)1 : whole;
}

// ---------------------------------------------------------------------------------------------- a block's threads

struct pl_add { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; } };
struct pl_mul { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a * b; } };
struct pl_wrap_add { template <class T> static __device__ __forceinline__ T of(T a, T b) { return pl_iadd<T>(a, b); } };
struct pl_wrap_mul { template <class T> static __device__ __forceinline__ T of(T a, T b) { return pl_imul<T>(a, b); } };
struct pl_float_max { template <class T> static __device__ __forceinline__ T of(T a, T b) { return pl_fmax<T>(a, b); } };
struct pl_float_min { template <class T> static __device__ __forceinline__ T of(T a, T b) { return pl_fmin<T>(a, b); } };
struct pl_int_max { template <class T> static __device__ __forceinline__ T of(T a, T b) { return pl_imax<T>(a, b); } };
struct pl_int_min { template <class T> static __device__ __forceinline__ T of(T a, T b) { return pl_imin<T>(a, b); } };
struct pl_and { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a & b; } };
struct pl_or { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a | b; } };
struct pl_xor { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a ^ b; } };

PL_DEVICE float pl_exchange(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
PL_DEVICE double pl_exchange(double x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
PL_DEVICE long long pl_exchange(long long x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
PL_DEVICE int pl_exchange(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
template <class T> PL_DEVICE T pl_exchange(T x, int mask) { return (T)__shfl_xor_sync(0xffffffffu, (int)x, mask); }

template <class Op, class T> PL_DEVICE T pl_warp_reduce(T value) {
  for (int mask = 16; mask > 0; mask >>= 1) value = Op::template of<T>(value, pl_exchange(value, mask));
  return value;
}

// The combined value of all threads, in every thread.  `neutral` fills up the last step.  It is a barrier, too.
template <class Op, class T> PL_DEVICE T pl_block_reduce(T value, T neutral) {
  __shared__ T slots[32];
  const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5;
  value = pl_warp_reduce<Op, T>(value);
  if (lane == 0) slots[warp] = value;
  __syncthreads();
  value = pl_warp_reduce<Op, T>(lane < blockDim.x >> 5 ? slots[lane] : neutral);
  __syncthreads();
  return value;
}

// Whether `a` at position `i` comes before `b` at `j`: NaN first, then the larger (or smaller), then the position.
template <bool Largest, class T> PL_DEVICE bool pl_comes_first(T a, long long i, T b, long long j) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan;
  if (a_nan || a == b) return i < j;
  return Largest ? a > b : a < b;
}

// The first best value and its position, over all threads, in every thread.  It is a barrier, too.
template <bool Largest, class T> PL_DEVICE void pl_block_select(T &value, long long &position) {
  __shared__ T values[32];
  __shared__ long long positions[32];
  const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int mask = 16; mask > 0; mask >>= 1) {
    const T other = pl_exchange(value, mask);
    const long long there = pl_exchange(position, mask);
    if (pl_comes_first<Largest, T>(other, there, value, position)) value = other, position = there;
  }
  if (lane == 0) values[warp] = value, positions[warp] = position;
  __syncthreads();
  for (unsigned w = 0; w < warps; ++w)
    if (pl_comes_first<Largest, T>(values[w], positions[w], value, position)) value = values[w], position = positions[w];
  __syncthreads();
}

// Thread 0's value, in every thread.  It is a barrier, too.
template <class T> PL_DEVICE T pl_broadcast(T value) {
  __shared__ T slot;
  if (threadIdx.x == 0) slot = value;
  __syncthreads();
  value = slot;
  __syncthreads();
  return value;
}

// ---------------------------------------------------------------------------------------------- errors

// The first failed check of a call is kept, with the value that failed it.
PL_DEVICE void pl_require(bool ok, unsigned long long *error, unsigned long long code, long long value = 0) {
  if (!ok && atomicCAS(error, 0ull, code) == 0ull) error[1] = (unsigned long long)value;
}
