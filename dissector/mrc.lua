-- MRC (Multipath Reliable Connection 1.0) for Wireshark and tshark 3.6 or newer.
--
--   tshark -X lua_script:mrc.lua -r capture.pcapng -Y mrc
--   Wireshark: copy this file into the folder that Help > About > Folders calls "Personal Lua Plugins".
--
-- Field names are those of `mrc decode -v` behind "mrc.": bth.psn there is mrc.bth.psn here. Frames on the UDP ports of MRC
-- that are not MRC go to the built-in dissectors (RoCEv2 on 4791). A source port is an entropy value here, so that UDP must
-- not choose a dissector by it: loading this file turns on "Try heuristic sub-dissectors first" of UDP for this session. It
-- also turns on "Ignore zero-value UDP checksums over IPv6": MRC has no UDP checksum, which would be an error of every packet.

local bit = bit or bit32
local band, bor, bxor, rshift, lshift = bit.band, bit.bor, bit.bxor, bit.rshift, bit.lshift

local mrc = Proto("mrc", "Multipath Reliable Connection")

mrc.prefs.ports = Pref.range("UDP ports", "4791,4971", "UDP destination ports that carry MRC", 65535)
mrc.prefs.icrc = Pref.bool("Check the ICRC", true, "Compute the ICRC of every whole packet")
mrc.prefs.trimmed = Pref.uint("DSCP trimmed", 12, "Code point of a packet that a switch trimmed")
mrc.prefs.lasthop = Pref.uint("DSCP trimmed at the last hop", 16, "Code point of a packet that its last switch trimmed")
mrc.prefs.swap = Pref.bool("High half of the EV in the source port", false, "As the knob ev_high_half_in_sport")

-- Opcodes, and the headers behind the BTH.
local OPCODES = {
    [0xC6] = "WRITE_FIRST", [0xC7] = "WRITE_MIDDLE", [0xC8] = "WRITE_LAST", [0xC9] = "WRITE_LAST_IMM",
    [0xCA] = "WRITE_ONLY", [0xCB] = "WRITE_ONLY_IMM", [0xD1] = "ACK", [0xD8] = "EP_REQUEST", [0xD9] = "EP_RESPONSE",
    [0xDC] = "SACK", [0xDD] = "NACK", [0xDE] = "PROBE",
}
local LENGTHS = { [0xD1] = 4, [0xD8] = 16, [0xD9] = 36, [0xDC] = 36, [0xDD] = 20, [0xDE] = 16 }
local VERDICTS = { [0] = "none", [1] = "skip_once", [2] = "always_skip", [3] = "reserved" }
local REASONS = {
    [0x01] = "trimmed", [0x02] = "trimmed_lasthop", [0x06] = "no_bitmap", [0x07] = "no_pkt_buffer",
    [0x0A] = "no_resource", [0x0B] = "psn_oor_window", [0x19] = "unexp_event",
}
local OPS = { [0] = "port_status_update", [1] = "ev_probe" }
local KINDS = { [1] = "trimmed", [2] = "trimmed_lasthop" }
local CHECKS = { [0] = "bad", [1] = "good", [2] = "absent", [3] = "not checked" }

-- Bit 7 is reserved.
local function syndrome(byte)
    byte = byte % 0x80
    if byte < 0x20 then return "ack" end
    if byte < 0x40 then return "rnr_nak" end
    if byte < 0x60 then return string.format("reserved(0x%02x)", byte) end
    local names = {
        [0x60] = "nak_psn_sequence", [0x61] = "nak_invalid_request", [0x62] = "nak_remote_access",
        [0x63] = "nak_remote_operational",
    }
    return names[byte] or string.format("nak_unknown(0x%02x)", byte)
end

-- Fields.
local F = {}
local function field(name, make)
    F[name] = make("mrc." .. name)
end
local DEC, HEX = base.DEC, base.HEX
local function number(kind, text, shown, values, mask)
    return function(name) return ProtoField[kind](name, text, shown or DEC, values, mask) end
end
local function flag(text, width, mask)
    return function(name) return ProtoField.bool(name, text, width or base.NONE, nil, mask) end
end
local function string_field(text)
    return function(name) return ProtoField.string(name, text) end
end

for name, text in pairs({
    bth = "Base transport header", ext = "Extension headers", srv6 = "SRv6 destination", srh = "Segment routing header",
}) do
    field(name, function(n) return ProtoField.none(n, text) end)
end
field("outer.dst", function(n) return ProtoField.ipv6(n, "Outer destination") end)
field("srv6.block", number("uint32", "SRv6 locator block", HEX))
field("srv6.usid", number("uint16", "Micro-SID", HEX))
field("srh.segments_left", number("uint8", "Segments left"))
field("srh.segment", function(n) return ProtoField.ipv6(n, "Segment") end)
field("ip.src", string_field("Source"))
field("ip.dst", string_field("Destination"))
field("ip.dscp", number("uint8", "Effective DSCP"))
field("ip.ce", flag("Congestion experienced"))
field("entropy", number("uint32", "Entropy value", HEX))
field("ev.plane", number("uint8", "Plane, if the EV is a compact one"))
field("ev.uplink", number("uint8", "Uplink, if the EV is a compact one"))
field("udp.len", number("uint16", "UDP length"))
field("bth.opcode", number("uint8", "Opcode", HEX, OPCODES))
field("bth.se", flag("Solicited event", 8, 0x80))
field("bth.pad", number("uint8", "Pad bytes", DEC, nil, 0x30))
field("bth.tver", number("uint8", "Transport version", DEC, nil, 0x0F))
field("bth.pkey", number("uint16", "Partition key", HEX))
field("bth.dest_qp", number("uint24", "Destination QP", HEX))
field("bth.ack_req", flag("Acknowledge request", 8, 0x80))
field("bth.rtx", flag("Retransmission", 8, 0x20))
field("bth.ts", flag("Timestamp header present", 8, 0x10))
field("bth.psn", number("uint24", "PSN"))
field("meth.rqmsn", number("uint16", "Receive message number"))
field("meth.msn", number("uint16", "Message number"))
for _, of in ipairs({ "tseth", "peth", "erth" }) do
    field(of .. ".tx_timestamp", number("uint16", "Timestamp (128 ns)"))
    field(of .. ".tsr", flag("Unit of the sender's own", 8, 0x80))
    field(of .. ".ftype", number("uint8", "Format", DEC, nil, 0x0F))
end
field("reth.va", number("uint64", "Virtual address", HEX))
field("reth.rkey", number("uint32", "R_Key", HEX))
field("reth.dmalen", number("uint32", "Length of the message"))
field("immdt", number("uint32", "Immediate data", HEX))
field("aeth.syndrome", number("uint8", "Syndrome", HEX))
field("aeth.msn", number("uint24", "Messages completed"))
field("seth.m", number("uint8", "Verdict on the EV", DEC, VERDICTS, 0x60))
field("seth.pr", flag("Answer to a probe", 8, 0x02))
field("seth.probe_id", number("uint16", "Probe", HEX))
field("seth.ack_psn_offset", number("int16", "Triggering PSN, from cack"))
field("seth.trigger", number("uint24", "Triggering PSN"))
field("seth.entropy", number("uint32", "Echoed EV", HEX))
field("seth.cack_psn", number("uint24", "Cumulatively acknowledged PSN"))
field("seth.cc_type", number("uint8", "Congestion state format", DEC, nil, 0xF0))
field("seth.mpr", number("uint8", "Window (128 PSNs)"))
field("seth.sack_offset", number("int16", "PSN of bitmap bit 0, from cack"))
field("seth.sack_bitmap", number("uint64", "Bitmap", HEX))
field("seth.received", string_field("PSNs received beyond"))
field("cc_state.tx_timestamp", number("uint16", "Reflected timestamp"))
field("cc_state.ooo_count", number("uint16", "Packets out of order", DEC, nil, 0x7FFF))
field("cc_state.restore_cwnd", flag("Restore the window", 8, 0x80))
field("cc_state.rcv_cwnd_pen", number("uint8", "Receiver penalty", DEC, nil, 0x7F))
field("cc_state.rcvd_bytes", number("uint24", "Bytes received (256 B)"))
field("neth.reason", number("uint8", "Reason", HEX, REASONS))
field("neth.entropy", number("uint32", "EV of the refused packet", HEX))
field("neth.nack_psn", number("uint24", "Refused PSN"))
field("neth.cc_type", number("uint8", "Congestion state format", DEC, nil, 0xF0))
field("neth.tx_timestamp", number("uint16", "Reflected timestamp"))
field("peth.probe_id", number("uint16", "Probe", HEX))
for _, of in ipairs({ "neth", "peth", "erth" }) do
    field(of .. ".vendor_info", number("uint8", "Vendor information"))
end
for _, of in ipairs({ "seth", "neth", "peth" }) do
    field(of .. ".spdcid", number("uint16", "Sender's QP, low half", HEX))
    field(of .. ".dpdcid", number("uint16", "Receiver's QP, low half", HEX))
end
field("erth.op", number("uint8", "Operation", DEC, OPS, 0x03))
field("erth.port_status_mask", number("uint32", "Ports that are up", HEX))
field("eeth.op", number("uint8", "Operation", DEC, OPS, 0x0C))
field("eeth.tx_timestamp", number("uint16", "Reflected timestamp"))
field("trim.kind", number("uint8", "Trimmed", DEC, KINDS))
field("trim.tx_timestamp", number("uint16", "Timestamp"))
field("payload", function(n) return ProtoField.bytes(n, "Payload") end)
field("payload.offset", number("uint16", "Payload offset in the frame"))
field("payload.len", number("uint16", "Payload length"))
field("icrc.offset", number("uint16", "ICRC offset in the frame"))
field("icrc", number("uint32", "ICRC", HEX))
field("icrc.expected", number("uint32", "ICRC, expected", HEX))
field("icrc.status", number("uint8", "ICRC status", DEC, CHECKS))
field("conversation", number("uint32", "Conversation (requester to responder)"))
field("request_in", function(n) return ProtoField.framenum(n, "Answers the packet in", base.NONE, frametype.REQUEST) end)
field("answer_in", function(n) return ProtoField.framenum(n, "Answered in", base.NONE, frametype.RESPONSE) end)
field("sent_before_in", function(n) return ProtoField.framenum(n, "Sent before in", base.NONE) end)
field("seen_before_in", function(n) return ProtoField.framenum(n, "The same transmission as in", base.NONE) end)
field("response_time", function(n) return ProtoField.relative_time(n, "Response time") end)

local all = {}
for _, f in pairs(F) do all[#all + 1] = f end
mrc.fields = all

local E = {
    trimmed = ProtoExpert.new("mrc.expert.trimmed", "Trimmed by a switch", expert.group.SEQUENCE, expert.severity.NOTE),
    ce = ProtoExpert.new("mrc.expert.ce", "Congestion experienced", expert.group.SEQUENCE, expert.severity.NOTE),
    rtx = ProtoExpert.new("mrc.expert.rtx", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
    icrc = ProtoExpert.new("mrc.expert.icrc", "Bad ICRC", expert.group.CHECKSUM, expert.severity.ERROR),
    nack = ProtoExpert.new("mrc.expert.nack", "Packet refused", expert.group.SEQUENCE, expert.severity.WARN),
    nak = ProtoExpert.new("mrc.expert.nak", "Request refused: the QP fails", expert.group.RESPONSE_CODE,
        expert.severity.ERROR),
    skip = ProtoExpert.new("mrc.expert.skip", "The responder wants another path", expert.group.SEQUENCE,
        expert.severity.NOTE),
    short = ProtoExpert.new("mrc.expert.short", "Headers are cut", expert.group.MALFORMED, expert.severity.WARN),
}
local experts = {}
for _, e in pairs(E) do experts[#experts + 1] = e end
mrc.experts = experts

-- What lower layers said of this frame.
local on_ip6, on_ip4, on_udp = Field.new("ipv6"), Field.new("ip"), Field.new("udp")
local on_frame_len = Field.new("frame.len")

-- CRC of IEEE 802.3, reflected.
local TABLE = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0xEDB88320) or rshift(crc, 1)
    end
    TABLE[byte] = crc
end

local function crc_of(crc, text)
    for at = 1, #text do
        crc = bxor(rshift(crc, 8), TABLE[band(bxor(crc, text:byte(at)), 0xFF)])
    end
    return crc
end

local function unsigned(number) return number % 0x100000000 end

-- The bytes of a string with some of them all ones.
local function masked(text, places)
    local bytes = { text:byte(1, #text) }
    for at, mask in pairs(places) do bytes[at + 1] = bor(bytes[at + 1], mask) end
    return string.char((table.unpack or unpack)(bytes))
end

local function computed(ip, udp, tvb, icrc_at)
    local crc = crc_of(-1, string.rep("\255", 8))
    if band(rshift(ip:byte(1), 4), 15) == 6 then
        crc = crc_of(crc, masked(ip, { [0] = 0x0F, [1] = 0xFF, [2] = 0xFF, [3] = 0xFF, [7] = 0xFF }))
    else
        crc = crc_of(crc, masked(ip, { [1] = 0xFF, [8] = 0xFF, [10] = 0xFF, [11] = 0xFF }))
    end
    crc = crc_of(crc, masked(udp, { [6] = 0xFF, [7] = 0xFF }))
    local payload = tvb:raw(0, icrc_at)
    crc = crc_of(crc, masked(payload:sub(1, 5), { [4] = 0xFF }))
    return unsigned(bit.bnot(crc_of(crc, payload:sub(6))))
end

-- Requests that wait for an answer, and what was found: filled in the first pass, in the order of the capture.
local S
local function forget()
    S = { conversations = 0, number = {}, toward = {}, requests = {}, of = {} }
end
forget()
function mrc.init()
    forget()
    -- Preferences are read after this file, and before a capture is.
    if set_preference then
        pcall(set_preference, "udp.try_heuristic_first", true)
        pcall(set_preference, "udp.ignore_ipv6_zero_checksum", true)
    end
end

-- The conversation of requester and responder, by the responder's QP.
local function conversation(requester, responder, qp)
    local key = requester .. ">" .. responder .. ":" .. band(qp, 0xFFFF)
    if not S.number[key] then
        S.conversations = S.conversations + 1
        S.number[key] = S.conversations
    end
    return S.number[key], key
end

local function of(frame)
    S.of[frame] = S.of[frame] or {}
    return S.of[frame]
end

-- Notes what a later packet may answer. A capture of several ports has a packet once for each port that it passed: `bytes`,
-- which switches do not change, tell that from a retransmission.
local function asked(info, key, bytes)
    local before, mine = S.requests[key], of(info.number)
    if before and before.bytes == bytes then
        mine.seen, mine.before = before.number, of(before.number).before
    elseif before then
        mine.before = before.number
    end
    S.requests[key] = { number = info.number, time = info.abs_ts, bytes = bytes }
end

local function answered(info, key)
    local request = S.requests[key]
    if not request then return end
    local mine, theirs = of(info.number), of(request.number)
    mine.request, mine.time = request.number, info.abs_ts - request.time
    if not theirs.answer then theirs.answer = info.number end
end

local function uint(text, at, len)
    local value = 0
    for byte = at + 1, at + len do value = value * 256 + (text:byte(byte) or 0) end
    return value
end

local function raw(found, len)
    local range = found.range
    return range:bytes(0, math.min(len or range:len(), range:len())):raw()
end

-- Whether what follows an IPv6 header and its extension headers is another IPv6 header. That of a tunnel (GRE, VXLAN, an
-- error message) is none of the packet's own. A header that is cut is believed.
local function encloses(found)
    local bytes = raw(found)
    local next_header, at = bytes:byte(7), 40
    while next_header == 0 or next_header == 43 or next_header == 44 or next_header == 60 do
        if #bytes < at + 2 then return true end
        local len = next_header == 44 and 8 or 8 * (1 + bytes:byte(at + 2))
        next_header, at = bytes:byte(at + 1), at + len
    end
    return next_header == 41
end

-- The header that carries UDP, and the outermost that SRv6 has put before it.
local function layers()
    local six, four = { on_ip6() }, { on_ip4() }
    local udp = { on_udp() }
    local last, outer = nil, nil
    for _, found in ipairs(six) do
        outer = last and encloses(last) and (outer or last) or nil
        last = found
    end
    for _, found in ipairs(four) do
        if not last or found.offset > last.offset then last, outer = found, nil end
    end
    return last, outer, udp[#udp]
end

local function container(tree, range)
    local list = tree:add(F["srv6.block"], range(0, 4))
    for at = 4, 14, 2 do
        if range(at, 2):uint() == 0 then break end
        list:add(F["srv6.usid"], range(at, 2))
    end
end

local function stamp(tree, range, of_header)
    tree:add(F[of_header .. ".tx_timestamp"], range(0, 2))
    tree:add(F[of_header .. ".tsr"], range(2, 1))
    tree:add(F[of_header .. ".ftype"], range(3, 1))
end

local function cids(tree, range, of_header)
    tree:add(F[of_header .. ".spdcid"], range(8, 2))
    tree:add(F[of_header .. ".dpdcid"], range(10, 2))
end

local function psn_add(psn, offset) return (psn + offset) % 0x1000000 end

-- PSNs whose bit is set, as ranges.
local function received(base_psn, range)
    local parts, from = {}, nil
    for n = 0, 64 do
        local set = n < 64 and band(range(27 - math.floor(n / 8), 1):uint(), lshift(1, n % 8)) ~= 0
        if set and not from then from = n end
        if not set and from then
            local first, last = psn_add(base_psn, from), psn_add(base_psn, n - 1)
            parts[#parts + 1] = from == n - 1 and tostring(first) or (first .. "-" .. last)
            from = nil
        end
    end
    return table.concat(parts, " ")
end

local BODY = {}

BODY[0xD1] = function(tree, range, c)
    local code = range(0, 1):uint()
    c.item = tree:add(F["aeth.syndrome"], range(0, 1)):append_text(" (" .. syndrome(code) .. ")")
    tree:add(F["aeth.msn"], range(1, 3))
    c.text = " " .. syndrome(code) .. " msn=" .. range(1, 3):uint()
    if code % 0x80 >= 0x20 then tree:add_proto_expert_info(E.nak, "Transport NAK: " .. syndrome(code)) end
    -- The requester's QP alone is named: the conversation is known from a SACK before.
    local key = S.toward[c.dst .. ":" .. band(c.qp, 0xFFFF) .. "<" .. c.src]
    if key then c.answers(key, "psn" .. c.psn) end
end

BODY[0xDC] = function(tree, range, c)
    local verdict = band(rshift(range(1, 1):uint(), 5), 3)
    tree:add(F["seth.m"], range(1, 1))
    local probe = band(range(1, 1):uint(), 2) ~= 0
    tree:add(F["seth.pr"], range(1, 1))
    local cack = range(13, 3):uint()
    local trigger = psn_add(cack, range(2, 2):int())
    if probe then
        tree:add(F["seth.probe_id"], range(2, 2))
    else
        tree:add(F["seth.ack_psn_offset"], range(2, 2))
        tree:add(F["seth.trigger"], range(2, 2), trigger):set_generated()
    end
    tree:add(F["seth.entropy"], range(4, 4))
    cids(tree, range, "seth")
    tree:add(F["seth.cack_psn"], range(13, 3))
    tree:add(F["seth.cc_type"], range(16, 1))
    tree:add(F["seth.mpr"], range(17, 1))
    tree:add(F["seth.sack_offset"], range(18, 2))
    tree:add(F["seth.sack_bitmap"], range(20, 8))
    local more = received(psn_add(cack, range(18, 2):int()), range)
    if more ~= "" then tree:add(F["seth.received"], range(20, 8), more):set_generated() end
    tree:add(F["cc_state.tx_timestamp"], range(28, 2))
    tree:add(F["cc_state.ooo_count"], range(30, 2))
    tree:add(F["cc_state.restore_cwnd"], range(32, 1))
    tree:add(F["cc_state.rcv_cwnd_pen"], range(32, 1))
    tree:add(F["cc_state.rcvd_bytes"], range(33, 3))
    c.text = string.format(" cack=%d echo=0x%08x verdict=%s %s", cack, range(4, 4):uint(), VERDICTS[verdict],
        probe and string.format("probe=0x%04x", range(2, 2):uint()) or ("trigger=" .. trigger))
    if more ~= "" then c.text = c.text .. " received=" .. more end
    if verdict == 1 or verdict == 2 then tree:add_proto_expert_info(E.skip, "Verdict on the EV: " .. VERDICTS[verdict]) end
    local key = c.responder(range(8, 2):uint())
    c.answers(key, probe and ("probe" .. range(2, 2):uint()) or ("psn" .. trigger))
end

BODY[0xDD] = function(tree, range, c)
    local reason = range(2, 1):uint()
    local name = REASONS[reason] or string.format("unknown(0x%02x)", reason)
    tree:add(F["neth.reason"], range(2, 1))
    tree:add(F["neth.vendor_info"], range(3, 1))
    tree:add(F["neth.entropy"], range(4, 4))
    cids(tree, range, "neth")
    tree:add(F["neth.nack_psn"], range(13, 3))
    tree:add(F["neth.cc_type"], range(16, 1))
    tree:add(F["neth.tx_timestamp"], range(18, 2))
    tree:add_proto_expert_info(E.nack, "Refused: " .. name)
    c.text = string.format(" refused=%d reason=%s echo=0x%08x", range(13, 3):uint(), name, range(4, 4):uint())
    c.answers(c.responder(range(8, 2):uint()), "psn" .. range(13, 3):uint())
end

BODY[0xDE] = function(tree, range, c)
    tree:add(F["peth.vendor_info"], range(3, 1))
    tree:add(F["peth.probe_id"], range(4, 2))
    cids(tree, range, "peth")
    stamp(tree, range(12, 4), "peth")
    c.text = string.format(" probe=0x%04x", range(4, 2):uint())
    c.asks("probe" .. range(4, 2):uint())
end

BODY[0xD8] = function(tree, range, c)
    local op = band(range(1, 1):uint(), 3)
    tree:add(F["erth.op"], range(1, 1))
    tree:add(F["erth.vendor_info"], range(3, 1))
    tree:add(F["erth.port_status_mask"], range(4, 4))
    stamp(tree, range(12, 4), "erth")
    c.text = string.format(" %s ports=0x%08x", OPS[op] or op, range(4, 4):uint())
    c.asks("op" .. c.psn)
end

BODY[0xD9] = function(tree, range, c)
    local op = band(rshift(range(1, 1):uint(), 2), 3)
    tree:add(F["eeth.op"], range(1, 1))
    tree:add(F["eeth.tx_timestamp"], range(28, 2))
    c.text = " " .. (OPS[op] or op)
    c.answers(c.responder(c.qp), "op" .. c.psn)
end

-- The headers of a write; how many bytes they take.
local function write(tree, range, c)
    local at = 0
    tree:add(F["meth.rqmsn"], range(0, 2))
    tree:add(F["meth.msn"], range(2, 2))
    at = 4
    if c.ts then
        stamp(tree, range(at, 4), "tseth")
        at = at + 4
    end
    tree:add(F["reth.va"], range(at, 8))
    tree:add(F["reth.rkey"], range(at + 8, 4))
    tree:add(F["reth.dmalen"], range(at + 12, 4))
    c.text = string.format(" msn=%d dmalen=%d", range(2, 2):uint(), range(at + 12, 4):uint())
    at = at + 16
    if c.immediate then
        tree:add(F["immdt"], range(at, 4))
        c.text = c.text .. string.format(" imm=0x%08x", range(at, 4):uint())
        at = at + 4
    end
    c.asks("psn" .. c.psn)
    return at
end

local function headers_len(opcode, ts)
    if LENGTHS[opcode] then return LENGTHS[opcode] end
    return 20 + (ts and 4 or 0) + ((opcode == 0xC9 or opcode == 0xCB) and 4 or 0)
end

-- What the layers below say; none if this is not MRC.
local function look(tvb)
    if tvb:len() < 12 then return end
    local opcode = tvb(0, 1):uint()
    if not OPCODES[opcode] or band(tvb(1, 1):uint(), 0x0F) ~= 0 then return end
    local ip, outer, udp = layers()
    if not ip or not udp then return end
    local head, first = raw(ip, 40), outer and raw(outer, 40)
    local v6 = band(rshift(head:byte(1), 4), 15) == 6
    local function class(text)
        if band(rshift(text:byte(1), 4), 15) == 6 then return band(rshift(uint(text, 0, 2), 4), 0xFF) end
        return text:byte(2)
    end
    local dscp = rshift(class(first or head), 2)
    local c = { opcode = opcode, ip = ip, outer = outer, head = head, first = first, v6 = v6, dscp = dscp, udp = raw(udp, 8) }
    c.trimmed = dscp == mrc.prefs.trimmed and 1 or dscp == mrc.prefs.lasthop and 2 or nil
    c.ce = band(class(head), 3) == 3 or (first ~= nil and band(class(first), 3) == 3)
    c.ts = band(tvb(8, 1):uint(), 0x10) ~= 0
    c.write = opcode <= 0xCB
    c.immediate = opcode == 0xC9 or opcode == 0xCB
    c.pad = band(rshift(tvb(1, 1):uint(), 4), 3)
    c.udp_len = uint(c.udp, 4, 2)
    if c.trimmed then return c.write and c or nil end
    if c.udp_len > 8 + tvb:reported_len() then return end
    local need = 12 + headers_len(opcode, c.ts) + 4
    if c.udp_len < 8 + need + (c.write and c.pad or 0) then return end
    return c
end

local function address(text, at, len)
    if len == 4 then return string.format("%d.%d.%d.%d", text:byte(at + 1, at + 4)) end
    local groups, best, best_len = {}, nil, 1
    for n = 0, 7 do groups[n] = uint(text, at + 2 * n, 2) end
    local n = 0
    while n < 8 do
        local run = 0
        while n + run < 8 and groups[n + run] == 0 do run = run + 1 end
        if run > best_len then best, best_len = n, run end
        n = n + math.max(run, 1)
    end
    local function join(from, to)
        local parts = {}
        for g = from, to do parts[#parts + 1] = string.format("%x", groups[g]) end
        return table.concat(parts, ":")
    end
    if not best then return join(0, 7) end
    return join(0, best - 1) .. "::" .. join(best + best_len, 7)
end

local function lower(tree, tvb, c)
    if c.outer then
        local range = c.outer.range
        tree:add(F["outer.dst"], range(24, 16))
        container(tree:add(F.srv6, range(24, 16)), range(24, 16))
        if c.first:byte(7) == 43 and range:len() >= 64 then
            local srh = tree:add(F.srh, range(40, 24))
            srh:add(F["srh.segments_left"], range(43, 1))
            srh:add(F["srh.segment"], range(48, 16))
            container(srh, range(48, 16))
        end
    end
    local range = c.ip.range
    local from, len = 8, 16
    if not c.v6 then from, len = 12, 4 end
    c.src, c.dst = address(c.head, from, len), address(c.head, from + len, len)
    tree:add(F["ip.src"], range(from, len), c.src)
    tree:add(F["ip.dst"], range(from + len, len), c.dst)
    tree:add(F["ip.dscp"], range(0, 2), c.dscp)
    local ce = tree:add(F["ip.ce"], range(0, 2), c.ce)
    if c.ce then ce:add_proto_expert_info(E.ce) end
    local sport, label = uint(c.udp, 0, 2), c.v6 and uint(c.head, 2, 2) or 0
    if mrc.prefs.swap and c.v6 then sport, label = label, sport end
    c.entropy = label * 65536 + sport
    tree:add(F["entropy"], range(2, 2), c.entropy)
    if c.entropy < 0x1000 then
        tree:add(F["ev.plane"], range(2, 2), rshift(c.entropy, 8)):set_generated()
        tree:add(F["ev.uplink"], range(2, 2), band(c.entropy, 0xFF)):set_generated()
    end
    tree:add(F["udp.len"], range(0, 1), c.udp_len)
end

local function bth(tree, tvb, c)
    local range = tvb(0, 12)
    local node = tree:add(F.bth, range)
    node:add(F["bth.opcode"], range(0, 1))
    for _, name in ipairs({ "se", "pad", "tver" }) do node:add(F["bth." .. name], range(1, 1)) end
    node:add(F["bth.pkey"], range(2, 2))
    node:add(F["bth.dest_qp"], range(5, 3))
    for _, name in ipairs({ "ack_req", "rtx", "ts" }) do node:add(F["bth." .. name], range(8, 1)) end
    node:add(F["bth.psn"], range(9, 3))
    c.qp, c.psn = range(5, 3):uint(), range(9, 3):uint()
    c.flags = ""
    for _, f in ipairs({ { 0x80, " a" }, { 0x20, " rtx" } }) do
        if band(range(8, 1):uint(), f[1]) ~= 0 then c.flags = c.flags .. f[2] end
    end
    if band(range(1, 1):uint(), 0x80) ~= 0 then c.flags = c.flags .. " se" end
    if band(range(8, 1):uint(), 0x20) ~= 0 and c.write then node:add_proto_expert_info(E.rtx) end
end

-- The bytes of a number in the order of the wire: the ICRC's lowest byte comes first.
local function swapped(v)
    local low = bor(lshift(band(v, 0xFF), 8), band(rshift(v, 8), 0xFF))
    local high = bor(lshift(band(rshift(v, 16), 0xFF), 8), band(rshift(v, 24), 0xFF))
    return unsigned(bor(lshift(low, 16), high))
end

local function icrc(tree, tvb, c, at)
    tree:add(F["icrc.offset"], tvb(0, 0), tvb:offset() + at):set_generated()
    if at + 4 > tvb:captured_len() then
        tree:add(F["icrc.status"], tvb(0, 0), 2):set_generated()
        return
    end
    local got = tvb(at, 4):le_uint()
    local item = tree:add(F["icrc"], tvb(at, 4))
    if not mrc.prefs.icrc then
        tree:add(F["icrc.status"], tvb(at, 4), 3):set_generated()
        return
    end
    local head_len = c.v6 and 40 or 4 * band(c.head:byte(1), 15)
    local want = computed(raw(c.ip, head_len), c.udp, tvb, at)
    tree:add(F["icrc.expected"], tvb(at, 4), swapped(want)):set_generated()
    tree:add(F["icrc.status"], tvb(at, 4), want == got and 1 or 0):set_generated()
    if want ~= got then item:add_proto_expert_info(E.icrc) end
end

local function results(tree, tvb, info)
    local known = S.of[info.number]
    if not known then return end
    local function add(name, value)
        if value then tree:add(F[name], tvb(0, 0), value):set_generated() end
    end
    add("conversation", known.conversation)
    add("sent_before_in", known.before)
    add("seen_before_in", known.seen)
    add("answer_in", known.answer)
    add("request_in", known.request)
    if known.time then
        local whole = math.floor(known.time)
        add("response_time", NSTime.new(whole, math.floor((known.time - whole) * 1e9 + 0.5)))
    end
end

local function dissect(tvb, info, root, c)
    info.cols.protocol = "MRC"
    local tree = root:add(mrc, tvb())
    lower(tree, tvb, c)
    bth(tree, tvb, c)
    -- Answers travel from the responder to the requester. What an error message quotes was sent long before.
    local first_pass = not info.visited and not info.in_error_pkt
    function c.asks(what)
        if not first_pass or c.trimmed then return end
        local number, key = conversation(c.src, c.dst, c.qp)
        of(info.number).conversation = number
        -- Entropy, and the headers up to the timestamp: a retransmission differs in one of them.
        asked(info, key .. "/" .. what, c.entropy .. tvb:raw(0, math.min(tvb:captured_len(), 28)))
    end
    function c.responder(qp)
        local number, key = conversation(c.dst, c.src, qp)
        if first_pass then
            of(info.number).conversation = number
            S.toward[c.dst .. ":" .. band(c.qp, 0xFFFF) .. "<" .. c.src] = { key = key, number = number }
        end
        return { key = key, number = number }
    end
    function c.answers(to, what)
        if not first_pass then return end
        of(info.number).conversation = to.number
        answered(info, to.key .. "/" .. what)
    end
    c.text = ""
    local name, left = OPCODES[c.opcode], tvb:captured_len() - 12
    local len, payload = headers_len(c.opcode, c.ts), 0
    if c.trimmed then
        -- Another format than that of a timestamp holds none.
        local stamped = c.ts and left >= 8 and band(tvb(19, 1):uint(), 0x0F) == 1
        local at = stamped and tvb(16, 2):uint() or 0
        local item = tree:add(F["trim.kind"], tvb(0, 0), c.trimmed)
        tree:add(F["trim.tx_timestamp"], tvb(0, 0), at)
        tree:add(F["icrc.status"], tvb(0, 0), 2):set_generated()
        item:add_proto_expert_info(E.trimmed, "By a switch: " .. KINDS[c.trimmed])
        c.text = " " .. KINDS[c.trimmed]
        tree:add(F["payload.offset"], tvb(0, 0), on_frame_len().value):set_generated()
        tree:add(F["payload.len"], tvb(0, 0), 0):set_generated()
    elseif left < len then
        tree:add_proto_expert_info(E.short)
    else
        local node = tree:add(F.ext, tvb(12, len))
        if c.write then write(node, tvb(12, len), c) else BODY[c.opcode](node, tvb(12, len), c) end
        local icrc_at = c.udp_len - 8 - 4
        -- Bytes behind the headers of another packet than a write are none of its payload.
        payload = c.write and math.max(0, icrc_at - 12 - len - c.pad) or 0
        tree:add(F["payload.offset"], tvb(0, 0), tvb:offset() + 12 + len):set_generated()
        tree:add(F["payload.len"], tvb(0, 0), payload):set_generated()
        if payload > 0 and tvb:captured_len() > 12 + len then
            tree:add(F["payload"], tvb(12 + len, math.min(payload, tvb:captured_len() - 12 - len)))
        end
        icrc(tree, tvb, c, icrc_at)
    end
    results(tree, tvb, info)
    local line = string.format("%s qp=0x%06x psn=%d ev=0x%08x len=%d%s%s%s%s", name, c.qp, c.psn, c.entropy, payload,
        c.flags, c.ce and " ce" or "", c.outer and " srv6" or "", c.text)
    info.cols.info = line
    tree:append_text(", " .. line)
    return tvb:len()
end

-- For "Decode As" alone: packets on the ports of MRC come through the heuristic below. What is not MRC is left to UDP, because
-- an exception of a dissector that Lua calls takes one of the 200 calls that Lua can nest, for the rest of the capture.
function mrc.dissector(tvb, info, root)
    local c = look(tvb)
    return c and dissect(tvb, info, root, c) or 0
end
DissectorTable.get("udp.port"):add_for_decode_as(mrc)

local function in_range(text, port)
    for part in tostring(text):gmatch("[^,]+") do
        local from, to = part:match("^%s*(%d+)%s*%-?%s*(%d*)%s*$")
        if from and port >= tonumber(from) and port <= (tonumber(to) or tonumber(from)) then return true end
    end
    return false
end

-- Before UDP looks at the source port, which is an entropy value.
mrc:register_heuristic("udp", function(tvb, info, root)
    if not in_range(mrc.prefs.ports, info.dst_port) then return false end
    local c = look(tvb)
    if not c then return false end
    dissect(tvb, info, root, c)
    return true
end)

