-- A dissector for Wireshark and tshark: the commands of an XMOS AI server on USB.
--
-- It looks at bulk transfers on the endpoints 0x01 and 0x81 of devices that are the AI server, or whose
-- descriptor the capture lacks. A command is a packet of 1, 3 or 12 bytes; what follows on the same endpoint
-- after a command with bit 7 set is its data, up to a short packet; what comes back is the answer.
--
-- Devices that speak ioserver look the same on USB, and their codes overlap with ours: the preference
-- aisrv.protocol says which of the two a capture holds.

-- <!-- table: dissector -->

local commands = {
    [0x00] = "NONE",
    [0x01] = "GET_STATUS",
    [0x03] = "GET_INPUT_TENSOR",
    [0x04] = "SET_SERVER",
    [0x05] = "GET_OUTPUT_TENSOR",
    [0x08] = "GET_SPEC",
    [0x09] = "GET_TIMINGS",
    [0x0a] = "GET_INPUT_TENSOR_LENGTH",
    [0x0b] = "GET_OUTPUT_TENSOR_LENGTH",
    [0x0c] = "GET_SENSOR_TENSOR_LENGTH",
    [0x0d] = "GET_SENSOR_TENSOR",
    [0x0e] = "GET_ACQUIRE_MODE",
    [0x0f] = "GET_DEBUG_LOG",
    [0x10] = "GET_ID",
    [0x11] = "GET_OUTPUT_GPIO_EN",
    [0x12] = "GET_OUTPUT_GPIO_THRESH",
    [0x13] = "GET_OUTPUT_GPIO_MODE",
    [0x14] = "GET_BOOT",
    [0x15] = "GET_MEMORY",
    [0x16] = "GET_TENSORS",
    [0x17] = "GET_SENSOR_FORMAT",
    [0x18] = "GET_PROFILE",
    [0x19] = "GET_OPERATORS",
    [0x1a] = "GET_TIMING_BANDS",
    [0x55] = "HELLO",
    [0x83] = "SET_INPUT_TENSOR",
    [0x84] = "START_INFER",
    [0x86] = "SET_MODEL_ARENA",
    [0x87] = "SET_MODEL_EXT",
    [0x8c] = "START_ACQUIRE_SINGLE",
    [0x8d] = "SET_SENSOR_TENSOR",
    [0x8e] = "START_ACQUIRE_STREAM",
    [0x8f] = "START_ACQUIRE_SET_I2C",
    [0x91] = "SET_OUTPUT_GPIO_EN",
    [0x92] = "SET_OUTPUT_GPIO_THRESH",
    [0x93] = "SET_OUTPUT_GPIO_MODE",
    [0x96] = "SET_MODEL_ARENA_FLASH",
    [0x97] = "SET_MODEL_EXT_FLASH",
}

local ioserver_commands = {
    [0x01] = "INVOKE",
    [0x02] = "TENSOR_SEND_OUTPUT",
    [0x03] = "TENSOR_RECV_INPUT",
    [0x07] = "RESET",
    [0x08] = "EXIT",
}

local status_bits = {
    { 0x01, "BUSY" },
    { 0x02, "SENSING" },
    { 0x04, "ERROR_NO_MODEL" },
    { 0x08, "ERROR_MODEL_ERR" },
    { 0x10, "ERROR_INFER_ERR" },
    { 0x20, "ERROR_BAD_CMD" },
}

-- <!-- end of table -->

local VENDOR, PRODUCT = 0x20b1, 0xa15e
local OUT, IN, PACKET = 0x01, 0x81, 512
local BULK, SUBMITTED = 3, string.byte("S")

local aisrv = Proto("aisrv", "XMOS AI server")
local command_field = ProtoField.uint8("aisrv.command", "Command", base.HEX, commands)
local ioserver_field = ProtoField.uint8("aisrv.ioserver_command", "Command", base.HEX, ioserver_commands)
local model_field = ProtoField.uint32("aisrv.model", "Model")
local engine_field = ProtoField.uint32("aisrv.engine", "Engine")
local tensor_field = ProtoField.uint32("aisrv.tensor", "Tensor")
local data_field = ProtoField.bytes("aisrv.data", "Data")
local data_of_field = ProtoField.uint8("aisrv.data_of", "Data of", base.HEX, commands)
local answer_field = ProtoField.uint8("aisrv.answer_to", "Answer to", base.HEX, commands)
local ioserver_data_of_field = ProtoField.uint8("aisrv.ioserver_data_of", "Data of", base.HEX, ioserver_commands)
local ioserver_answer_field = ProtoField.uint8("aisrv.ioserver_answer_to", "Answer to", base.HEX, ioserver_commands)
local status_field = ProtoField.uint32("aisrv.status", "Status", base.HEX)
aisrv.fields = {
    command_field, engine_field, tensor_field, data_field, data_of_field, answer_field, status_field,
    ioserver_field, model_field, ioserver_data_of_field, ioserver_answer_field,
}

-- What a device speaks: its names, the fields that show them, and which commands data follow.
local protocols = {
    [0] = {
        names = commands,
        command = command_field, data_of = data_of_field, answer = answer_field,
        owner = "engine", owner_field = engine_field,
        takes_data = function(command) return bit32.band(command, 0x80) ~= 0 end,
    },
    [1] = {
        names = ioserver_commands,
        command = ioserver_field, data_of = ioserver_data_of_field, answer = ioserver_answer_field,
        owner = "model", owner_field = model_field,
        takes_data = function(command) return command == 0x03 end,
    },
}

aisrv.prefs.protocol = Pref.enum(
    "Protocol", 0, "What the devices of a capture speak; a capture does not say",
    { { 1, "aisrv", 0 }, { 2, "ioserver", 1 } }, true
)

local function spoken()
    return protocols[aisrv.prefs.protocol]
end

local address = Field.new("usb.endpoint_address")
local transfer_type = Field.new("usb.transfer_type")
local urb_type = Field.new("usb.urb_type")
local urb_status = Field.new("usb.urb_status")
local urb_length = Field.new("usb.urb_len")
local bus = Field.new("usb.bus_id")
local device = Field.new("usb.device_address")
local vendor = Field.new("usb.idVendor")
local product = Field.new("usb.idProduct")
local payload = Field.new("usb.capdata")

local devices -- by bus and address: whether it is another product, the last command, whether its data comes
local roles -- by frame: what its bytes are

function aisrv.init()
    devices, roles = {}, {}
end

local function name_of(command)
    return spoken().names[command] or string.format("command 0x%02x", command)
end

local function status_text(status)
    if status == 0 then
        return "OKAY"
    end
    local found = {}
    for _, each in ipairs(status_bits) do
        if bit32.band(status, each[1]) ~= 0 then
            found[#found + 1] = each[2]
        end
    end
    return #found > 0 and table.concat(found, "|") or string.format("0x%x", status)
end

-- The command packet in bytes: its code, engine (or model) and tensor, and the width of each; nil for one that is none.
local function read_command(range)
    local length = range:len()
    if length == 1 then
        return { command = range(0, 1):uint(), width = 1 }
    elseif length == 3 then
        return { command = range(0, 1):uint(), owner = range(1, 1):uint(), tensor = range(2, 1):uint(), width = 1 }
    elseif length == 12 and range(0, 4):le_uint() < 256 then
        return {
            command = range(0, 4):le_uint(), owner = range(4, 4):le_uint(), tensor = range(8, 4):le_uint(), width = 4,
        }
    end
    return nil
end

-- Whether an OUT transfer without bytes ends the data of a command: an empty one, or one that failed.
local function ends_data()
    if urb_type().value == SUBMITTED then
        return urb_length() and urb_length().value == 0
    end
    return urb_status().value ~= 0
end

-- Follow one direction of a device, and say what the bytes of a frame are.
local function role_of(state, endpoint, range)
    if endpoint == IN then
        return state.command and { kind = "answer", command = state.command }
    end
    local is_short = range:len() % PACKET ~= 0
    if state.expects_data then
        state.expects_data = not is_short
        return { kind = "data", command = state.command }
    end
    local command = read_command(range)
    if command then
        state.command = command.command
        state.expects_data = spoken().takes_data(command.command)
        command.kind = "command"
    end
    return command
end

local function show_command(tree, range, role)
    local protocol = spoken()
    tree:add_le(protocol.command, range(0, 1))
    local text = name_of(role.command)
    if role.owner then
        tree:add_le(protocol.owner_field, range(role.width, role.width))
        tree:add_le(tensor_field, range(2 * role.width, role.width))
        text = string.format("%s %s %d tensor %d", text, protocol.owner, role.owner, role.tensor)
    end
    return text
end

local function show_data(tree, range, role)
    tree:add(spoken().data_of, role.command)
    tree:add(data_field, range)
    return string.format("data of %s, %d bytes", name_of(role.command), range:len())
end

local function show_answer(tree, range, role)
    tree:add(spoken().answer, role.command)
    local text = string.format("answer to %s, %d bytes", name_of(role.command), range:len())
    if range:len() == 4 and name_of(role.command) == "GET_STATUS" then
        tree:add_le(status_field, range)
        return text .. ": " .. status_text(range:le_uint())
    end
    tree:add(data_field, range)
    return text
end

local show = { command = show_command, data = show_data, answer = show_answer }

function aisrv.dissector(_, pinfo, tree)
    local number, place = device(), bus()
    if not number or not place then
        return
    end
    local key = string.format("%d.%d", place.value, number.value)
    local state = devices[key] or {}
    devices[key] = state
    if vendor() and product() then
        state.is_other = vendor().value ~= VENDOR or product().value ~= PRODUCT
    end
    local endpoint, kind = address(), transfer_type()
    if state.is_other or not endpoint or not kind or kind.value ~= BULK then
        return
    end
    if not pinfo.visited and endpoint.value == OUT and ends_data() then
        state.expects_data = false
    end
    local data = payload()
    if not data or (endpoint.value ~= OUT and endpoint.value ~= IN) then
        return
    end
    if not pinfo.visited then
        roles[pinfo.number] = role_of(state, endpoint.value, data.range)
    end
    local role = roles[pinfo.number]
    if role then
        local branch = tree:add(aisrv, data.range)
        local text = show[role.kind](branch, data.range, role)
        branch:append_text(": " .. text)
        pinfo.cols.protocol = "AISRV"
        pinfo.cols.info = text
    end
end

register_postdissector(aisrv)
