// lossy.js PLACE MODEL INPUT SEED PERCENT: uploads and runs a model by jacdac-ts while frames get lost both ways.
const fs = require("fs")
const { connect, get, main } = require("./connect.js")

// Marsaglia's xorshift of 32 bits: the same losses for the same seed.
function random(seed) {
    let state = seed || 1
    return () => {
        state ^= state << 13
        state ^= state >>> 17
        state ^= state << 5
        return (state >>> 0) / 2 ** 32
    }
}

main(async () => {
    const [place, model, input, seed, percent] = process.argv.slice(2)
    const { j, bus, service } = await connect(place, require("jacdac-ts").SRV_MODEL_RUNNER)
    const next = random(Number(seed))
    const lost = { sent: 0, received: 0 }
    const isLost = (way) => {
        if (next() * 100 >= Number(percent)) return false
        lost[way]++
        return true
    }
    const transport = bus.transports[0]
    const send = transport.transportSendPacketAsync.bind(transport)
    transport.transportSendPacketAsync = async (packet) => (isLost("sent") ? undefined : send(packet))
    const receive = transport.handleFrame.bind(transport)
    transport.handleFrame = (...frame) => (isLost("received") ? undefined : receive(...frame))

    const again = async (what, work) => {
        for (let tries = 1; tries <= 60; tries++) {
            try {
                const found = await work()
                if (found) return found
            } catch {} // a pipe gives up after four losses of a packet: begin again
        }
        throw new Error(`${what} failed 60 times`)
    }
    const data = new Uint8Array(fs.readFileSync(model))
    const size = async () => Buffer.from(await get(service, j.ModelRunnerReg.ModelSize)).readUInt32LE()
    let uploads = 0
    await again("upload", async () => {
        uploads++
        await j.OutPipe.sendBytes(service, j.ModelRunnerCmd.SetModel, data)
        for (let tries = 0; tries < 20; tries++) if ((await size()) === data.length) return true
        return false
    })
    const floats = new Uint8Array(fs.readFileSync(input))
    const output = await again("predict", async () => {
        const results = new j.InPipeReader(bus)
        const command = results.openCommand(j.ModelRunnerCmd.Predict)
        const report = await service.sendCmdAwaitResponseAsync(command, 1000)
        const [port] = j.jdunpack(report.data, "u16")
        const feed = new j.OutPipe(service.device, port)
        const outputs = results.readData(3000)
        outputs.catch(() => {})
        for (let at = 0; at < floats.length; at += 100) await feed.send(floats.slice(at, at + 100))
        await feed.close()
        const whole = Buffer.concat((await outputs).map((message) => Buffer.from(message)))
        return whole.length ? whole.toString("hex") : undefined
    })
    return { output, uploads, lost, size: await again("size", size) }
})
