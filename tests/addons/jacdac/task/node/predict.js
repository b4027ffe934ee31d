// predict.js PLACE MODEL INPUT: uploads a model and runs it on float32 inputs, by jacdac-ts.
const fs = require("fs")
const { connect, get, main } = require("./connect.js")

main(async () => {
    const [place, model, input] = process.argv.slice(2)
    const { j, bus, service } = await connect(place, require("jacdac-ts").SRV_MODEL_RUNNER)
    const before = await get(service, j.ModelRunnerReg.LastError)
    await j.OutPipe.sendBytes(service, j.ModelRunnerCmd.SetModel, new Uint8Array(fs.readFileSync(model)))
    for (let tries = 0; tries < 100 && !(await get(service, j.ModelRunnerReg.ModelSize)).some((b) => b); tries++);
    const results = new j.InPipeReader(bus)
    const command = results.openCommand(j.ModelRunnerCmd.Predict)
    const report = await service.sendCmdAwaitResponseAsync(command, 3000)
    const [port] = j.jdunpack(report.data, "u16")
    const feed = new j.OutPipe(service.device, port)
    const outputs = results.readData(3000)
    const floats = new Uint8Array(fs.readFileSync(input))
    for (let at = 0; at < floats.length; at += 100) await feed.send(floats.slice(at, at + 100))
    await feed.close()
    return {
        before: Buffer.from(before).toString(),
        error: Buffer.from(await get(service, j.ModelRunnerReg.LastError)).toString(),
        size: Buffer.from(await get(service, j.ModelRunnerReg.ModelSize)).readUInt32LE(),
        format: Buffer.from(await get(service, j.ModelRunnerReg.Format)).toString(),
        outputs: (await outputs).map((message) => Buffer.from(message).toString("hex")),
        shown: Buffer.from(await get(service, j.ModelRunnerReg.Outputs)).toString("hex"),
    }
})
