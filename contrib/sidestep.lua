-- SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
--
-- sidestep.lua - Wireshark and tshark: sidestep's records in a TCP stream, and the
-- control messages of a link over RoCE (doc/wire.md)
--
--	tshark -X lua_script:sidestep.lua -r FILE -Y sidestep
--
-- It looks at every TCP segment after all other dissectors, so the port and the
-- program's own protocol do not matter.  A passive reader knows neither where a
-- record may stand nor its nonce; it goes by these:
--
--  1. A SWITCHREC has 22 of its 32 bytes fixed.  It is looked for everywhere,
--     also across two segments.
--  2. After it nothing but records of its epoch and nonce is on that direction,
--     until RESUME.  Anything else is said (sidestep.lost): bytes are missing in
--     the capture, or it was no SWITCHREC.
--  3. Where no SWITCHREC has been seen, for the capture began later, a REQUEST or
--     RESUME is taken by its shape at the beginning of a segment, and marked so
--     (sidestep.unproven).

local sidestep = Proto("sidestep", "sidestep")

local RECORDS = { [1] = "SWITCHREC", [2] = "REQUEST", [3] = "RESUME" }
local MARKS = { [2] = 0x51, [3] = 0x52 }
local MESSAGES = {
	"HELLO", "BIND", "BOUND", "NOT_MINE", "LATER", "GRANT", "SWITCH", "SWITCHED", "REFUSED",
	"CREDIT", "WANT_CREDIT", "PLEASE", "RELEASED", "FIN", "UNBIND", "CLOSING", "QUIET", "WINDOW",
	"PING", "PONG", "RESET", "PART", "WANT_RING", "RING",
}
local RECORD, MESSAGE = 32, 128
local BIND, BOUND = 2, 3

local f = {
	mark = ProtoField.uint8("sidestep.mark", "Mark", base.HEX),
	record = ProtoField.uint8("sidestep.record", "Record", base.DEC, RECORDS),
	epoch = ProtoField.uint16("sidestep.epoch", "Epoch", base.DEC),
	want = ProtoField.bool("sidestep.want_yours", "WANT_YOURS", 8, nil, 1),
	version = ProtoField.uint8("sidestep.version", "Version", base.DEC),
	other = ProtoField.uint16("sidestep.other", "Other direction's epoch", base.DEC),
	nonce = ProtoField.uint64("sidestep.nonce", "Nonce", base.HEX),
	k = ProtoField.uint64("sidestep.k", "K, consumed as far as the sender knows", base.DEC),
	p = ProtoField.uint64("sidestep.p", "P, put into the ring", base.DEC),
	again = ProtoField.uint64("sidestep.again", "Bytes that follow again", base.DEC),
	message = ProtoField.uint8("sidestep.message", "Message", base.DEC, MESSAGES),
	flags = ProtoField.uint8("sidestep.flags", "Flags", base.HEX),
	slot = ProtoField.uint16("sidestep.slot", "Slot", base.DEC),
	reason = ProtoField.uint16("sidestep.reason", "Reason", base.DEC),
	a = ProtoField.uint64("sidestep.a", "a", base.DEC),
	b = ProtoField.uint64("sidestep.b", "b", base.DEC),
	own_port = ProtoField.uint16("sidestep.own_port", "Own port", base.DEC),
	peer_port = ProtoField.uint16("sidestep.peer_port", "Peer's port", base.DEC),
	own_4 = ProtoField.ipv4("sidestep.own", "Own address"),
	peer_4 = ProtoField.ipv4("sidestep.peer", "Peer's address"),
	own_6 = ProtoField.ipv6("sidestep.own6", "Own address"),
	peer_6 = ProtoField.ipv6("sidestep.peer6", "Peer's address"),
	ring = ProtoField.uint64("sidestep.ring_bytes", "Ring", base.DEC),
	bind_slot = ProtoField.uint16("sidestep.bind_slot", "Sender's slot", base.DEC),
	ring_at = ProtoField.uint64("sidestep.ring_at", "Ring's offset or address", base.HEX),
	rkey = ProtoField.uint32("sidestep.rkey", "rkey", base.HEX),
	cold_tx = ProtoField.uint16("sidestep.cold_tx", "Cold bytes sent, under the MAC", base.DEC),
	cold_rx = ProtoField.uint16("sidestep.cold_rx", "Cold bytes received, under the MAC", base.DEC),
	challenge = ProtoField.uint64("sidestep.challenge", "Challenge", base.HEX),
	mac = ProtoField.bytes("sidestep.mac", "HMAC-SHA256"),
}
sidestep.fields = f

local e = {
	unproven = ProtoExpert.new("sidestep.unproven", "no SWITCHREC seen: a record by its shape only",
		expert.group.ASSUMPTION, expert.severity.NOTE),
	lost = ProtoExpert.new("sidestep.lost", "a record was to stand here, and does not",
		expert.group.SEQUENCE, expert.severity.WARN),
}
sidestep.experts = e

local tcp_payload, tcp_stream = Field.new("tcp.payload"), Field.new("tcp.stream")
local tcp_src, tcp_seq = Field.new("tcp.srcport"), Field.new("tcp.seq")

-- by stream and sender: on = { epoch, nonce } of the record, ever, carry, next
local directions = {}
-- by frame: what stands in it, as found when frames came in their order
local found = {}

function sidestep.init()
	directions, found = {}, {}
end

local function number(s, at, bytes)
	local v = 0
	for i = bytes - 1, 0, -1 do
		v = v * 256 + s:byte(at + i)
	end
	return v
end

-- The record at s[at], or nil.
local function parse(s, at)
	local r = { type = s:byte(at + 1), epoch = number(s, at + 2, 2), nonce = s:sub(at + 8, at + 15) }
	local flags, other = s:byte(at + 4), number(s, at + 6, 2)
	local k, p = number(s, at + 16, 8), number(s, at + 24, 8)

	if s:byte(at + 5) ~= 1 or not RECORDS[r.type] or flags > 1 or
	   (MARKS[r.type] and s:byte(at) ~= MARKS[r.type]) then
		return nil
	end
	if r.type == 3 and (k > p or p >= 2 ^ 48) then
		return nil
	end
	if r.type ~= 3 and (flags + k + p ~= 0) then
		return nil
	end
	if r.type == 1 and (other ~= 0 or r.epoch == 0 or r.nonce == ("\0"):rep(8)) then
		return nil
	end
	return r
end

-- The first SWITCHREC from s[at] on.
local function find_switch(s, at)
	local hit = s:find("\0\1\0\0", at + 4, true)

	while hit and hit - 4 + RECORD - 1 <= #s do
		local r = parse(s, hit - 4)
		if r and r.type == 1 then
			return hit - 4, r
		end
		hit = s:find("\0\1\0\0", hit + 1, true)
	end
	return nil
end

-- One step; returns where to go on, or nil when more bytes are wanted.
local function step(d, s, at, first, put)
	if d.on then
		if #s - at + 1 < RECORD then
			return nil
		end
		local r = parse(s, at)
		if not r or r.type == 1 or r.epoch ~= d.on.epoch or r.nonce ~= d.on.nonce then
			put(at, RECORD, nil)
			d.on = nil
			return at
		end
		put(at, RECORD, r)
		d.on = r.type ~= 3 and d.on or nil
		return at + RECORD
	end
	if not d.ever and at == first and #s - at + 1 >= RECORD then
		local r = parse(s, at)
		if r and r.type ~= 1 then
			r.unproven = true
			put(at, RECORD, r)
			d.on = r.type == 2 and r or nil
			return at + RECORD
		end
	end
	local hit, r = find_switch(s, at)
	if not hit then
		return nil
	end
	put(hit, RECORD, r)
	d.on, d.ever = r, true
	return hit + RECORD
end

-- data: a segment's bytes, in the order of the stream
local function scan(d, data, frame)
	local s, at = d.carry .. data, 1
	local first = #d.carry + 1

	local function put(where, n, r)
		table.insert(found[frame], { at = where - first, bytes = s:sub(where, where + n - 1), r = r })
	end

	while true do
		local next_at = step(d, s, at, first, put)
		if not next_at then
			break
		end
		at = next_at
	end
	d.carry = d.on and s:sub(at) or s:sub(math.max(at, #s - RECORD + 2))
end

local function look(frame, data)
	local key = tcp_stream().value .. "/" .. tcp_src().value
	local d = directions[key] or { carry = "" }
	local seq = tcp_seq().value

	directions[key] = d
	found[frame] = {}
	local ahead = d.next and (seq - d.next) % 2 ^ 32 or 0
	if ahead >= 2 ^ 31 then
		return			-- seen before
	end
	if ahead > 0 then
		d.carry = ""		-- a hole
	end
	d.next = (seq + #data) % 2 ^ 32
	scan(d, data, frame)
end

local function hex(s)
	return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function show_record(tree, range, r)
	local t = tree:add(sidestep, range, "sidestep, " .. (RECORDS[r.type] or "?"))

	t:add(f.mark, range:range(0, 1))
	t:add(f.record, range:range(1, 1))
	t:add_le(f.epoch, range:range(2, 2))
	t:add(f.want, range:range(4, 1))
	t:add(f.version, range:range(5, 1))
	t:add_le(f.other, range:range(6, 2))
	t:add_le(f.nonce, range:range(8, 8))
	t:add_le(f.k, range:range(16, 8))
	t:add_le(f.p, range:range(24, 8))
	if r.type == 3 then
		t:add(f.again, range:range(16, 16),
			range:range(24, 8):le_uint64() - range:range(16, 8):le_uint64()):set_generated()
	end
	if r.unproven then
		t:add_proto_expert_info(e.unproven)
	end
end

local function show(tree, payload, pinfo, one)
	local range

	if one.at >= 0 and one.at + #one.bytes <= payload:len() then
		range = payload:range(one.at, #one.bytes)
	else
		range = ByteArray.new(hex(one.bytes)):tvb("record over two segments"):range()
	end
	if one.r then
		show_record(tree, range, one.r)
		pinfo.cols.info:append((" [sidestep %s, epoch %d]"):format(RECORDS[one.r.type], one.r.epoch))
	else
		tree:add(sidestep, range, "sidestep, no record"):add_proto_expert_info(e.lost)
		pinfo.cols.info:append(" [sidestep: record lost]")
	end
end

local function segment(pinfo, tree)
	local payload = tcp_payload()

	if not payload then
		return
	end
	if not pinfo.visited then
		look(pinfo.number, payload.range:raw())
	end
	for _, one in ipairs(found[pinfo.number] or {}) do
		show(tree, payload.range, pinfo, one)
	end
end

-- --------------------------------------------------- control messages of a link

-- Slot 0 of a link, by RDMA WRITE with immediate data over RoCE.  What goes over
-- shared memory never is a packet: SIDESTEP_LOG=trace tells of it.
local function is_message(tvb)
	local kind = tvb:len() >= MESSAGE and tvb(0, 1):uint() or 0

	if not MESSAGES[kind] or tvb:len() > MESSAGE + 4 then	-- the ICRC may be with it
		return false
	end
	if kind == BIND or kind == BOUND then
		local family, log2 = tvb(60, 1):uint(), tvb(61, 1):uint()
		return (family == 4 or family == 6) and log2 >= 12 and log2 <= 32
	end
	return tvb(24, MESSAGE - 24):raw() == ("\0"):rep(MESSAGE - 24)
end

local function show_bind(t, tvb)
	local six = tvb(60, 1):uint() == 6
	local len = six and 16 or 4

	t:add(six and f.own_6 or f.own_4, tvb(24, len))
	t:add(six and f.peer_6 or f.peer_4, tvb(40, len))
	t:add_le(f.own_port, tvb(56, 2))
	t:add_le(f.peer_port, tvb(58, 2))
	t:add(f.ring, tvb(61, 1), UInt64(1):lshift(tvb(61, 1):uint()))
	t:add_le(f.bind_slot, tvb(62, 2))
	t:add_le(f.ring_at, tvb(64, 8))
	t:add_le(f.rkey, tvb(72, 4))
	t:add_le(f.cold_tx, tvb(76, 2))
	t:add_le(f.cold_rx, tvb(78, 2))
	t:add_le(f.nonce, tvb(80, 8))
	t:add_le(f.challenge, tvb(88, 8))
	t:add(f.mac, tvb(96, 32))
end

local function message(tvb, pinfo, tree)
	if not is_message(tvb) then
		return false
	end
	local kind = tvb(0, 1):uint()
	local t = tree:add(sidestep, tvb(0, MESSAGE), "sidestep, " .. MESSAGES[kind])

	t:add(f.message, tvb(0, 1))
	t:add(f.flags, tvb(1, 1))
	t:add_le(f.slot, tvb(2, 2))
	t:add_le(f.epoch, tvb(4, 2))
	t:add_le(f.reason, tvb(6, 2))
	t:add_le(f.a, tvb(8, 8))
	t:add_le(f.b, tvb(16, 8))
	if kind == BIND or kind == BOUND then
		show_bind(t, tvb)
	end
	pinfo.cols.info:append((" [sidestep %s, slot %d]"):format(MESSAGES[kind], tvb(2, 2):le_uint()))
	return true
end

function sidestep.dissector(tvb, pinfo, tree)
	segment(pinfo, tree)
end

register_postdissector(sidestep)
sidestep:register_heuristic("infiniband.payload", message)
