// prototest.js PLACE: the procedure of jacdac's Protocol Test, with and without ACKs.
const { connect, main, until } = require("./connect.js")

main(async () => {
    const jacdac = require("jacdac-ts")
    const { j, bus, service } = await connect(process.argv[2], jacdac.SRV_PROTO_TEST)
    const values = {
        bool: [[true], [false]],
        u32: [[0xfedcba98], [7]],
        i32: [[-123456], [99]],
        string: [["one"], ["two two"]],
        bytes: [[new Uint8Array([1, 2, 254])], [new Uint8Array([])]],
        i8_u8_u16_i32: [[-1, 255, 65535, -2], [1, 2, 3, 4]],
        u8_string: [[7, "seven"], [8, "eight"]],
    }
    const formats = { bool: "u8", u32: "u32", i32: "i32", string: "s", bytes: "b", i8_u8_u16_i32: "i8 u8 u16 i32", u8_string: "u8 s" }
    const hex = (data) => Buffer.from(data || []).toString("hex")
    const checked = []
    for (const acks of [false, true]) {
        service.registersUseAcks = acks
        let number = 0
        for (const [name, [first, second]] of Object.entries(values)) {
            const code = 0x80 + ++number
            const pack = (value) => j.jdpack(formats[name], value)
            const read = async (register, wanted) => {
                await register.refresh()
                await until(() => hex(register.data) === wanted, `${name} ${hex(register.data)} ${wanted}`)
            }
            const events = []
            const stop = bus.subscribe(j.PACKET_EVENT, (packet) => {
                if (packet.serviceIndex === service.serviceIndex && packet.eventCode === code) events.push(hex(packet.data))
            })
            await service.register(code).sendSetAsync(pack(first), acks)
            await read(service.register(code), hex(pack(first)))
            await read(service.register(0x100 + code), hex(pack(first)))
            await until(() => events.includes(hex(pack(first))), `event of ${name}`)
            await service.sendCmdAsync(code, pack(second), acks)
            await read(service.register(code), hex(pack(second)))
            stop()
            checked.push(`${name}${acks ? " acked" : ""}`)
        }
    }
    const reader = new j.InPipeReader(bus)
    await service.register(0x85).sendSetAsync(new Uint8Array([5, 6, 7]), true)
    await service.sendPacketAsync(reader.openCommand(0x90))
    const piped = await reader.readData(2000)
    return { checked, piped: piped.map(hex) }
})
