/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The XDP filter of xdp.rs in C, for comparison only: nothing is built from this file except by the test
 * `the_compiler_agrees`, which runs clang's output and ours over the same frames. It includes no header, so that
 * clang alone suffices. SID_A is matched whole, SID_B by its first 64 bits; SID_B, SID_C and IPV4 are the addresses of UDP packets; words in network order.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

struct context {
	u32 data, data_end, data_meta, ingress_ifindex, queue;
};

#define PASS 2
#define be16(x) __builtin_bswap16(x)
#define be32(x) __builtin_bswap32(x)
#define field16(at) (*(u16 *)(d + (at)))
#define field32(at) (*(u32 *)(d + (at)))
#define is6(x) (field32(38) == be32(x##0) && field32(42) == be32(x##1) && \
		field32(46) == be32(x##2) && field32(50) == be32(x##3))

static long (*redirect_map)(void *map, u32 key, unsigned long flags) = (void *)51;

/* The real map is patched in by a loader; the comparison only looks at who is redirected. */
#define MAP ((void *)0)

__attribute__((section("xdp"), used)) int mrc(struct context *context)
{
	u8 *d = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	u16 port;

	if (d + 38 > end)
		return PASS;
	if (field16(12) == be16(0x8100)) {
		if (field16(14) & be16(0x0fff))
			return PASS;
		d += 4;
		if (d + 38 > end)
			return PASS;
	}
	if (field16(12) == be16(0x0800)) {
		if (d[14] != 0x45 || d[23] != 17 || (field16(20) & be16(0x3fff)))
			return PASS;
		if (field32(30) != be32(IPV4))
			return PASS;
		port = field16(36);
	} else if (field16(12) == be16(0x86dd)) {
		if (d + 54 > end)
			return PASS;
		if (d[20] == 41 || d[20] == 43) {
			if (is6(SID_A))
				return redirect_map(MAP, context->queue, PASS);
			if (field32(38) == be32(SID_B0) && field32(42) == be32(SID_B1))
				return redirect_map(MAP, context->queue, PASS);
			return PASS;
		}
		if (d[20] != 17 || d + 58 > end || !(is6(SID_B) || is6(SID_C)))
			return PASS;
		port = field16(56);
	} else {
		return PASS;
	}
	if (port == be16(4791) || port == be16(4971))
		return redirect_map(MAP, context->queue, PASS);
	return PASS;
}
