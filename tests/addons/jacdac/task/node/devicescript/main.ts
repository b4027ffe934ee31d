// A DeviceScript program: it prints the registers of a Model Runner, and what automatic runs give.
import * as ds from "@devicescript/core"

const runner = new ds.ModelRunner()
let done = false

runner.binding().subscribe(async (bound) => {
    if (!bound || done) return
    done = true
    const registers = {
        format: await runner.format.read(),
        formatVersion: await runner.formatVersion.read(),
        parallel: await runner.parallel.read(),
        modelSize: await runner.modelSize.read(),
        inputShape: await runner.inputShape.read(),
        outputShape: await runner.outputShape.read(),
        lastError: await runner.lastError.read(),
    }
    console.log("registers " + JSON.stringify(registers))
    runner.reading.subscribe(async (reading) => {
        console.log("reading " + JSON.stringify(reading))
    })
    await runner.autoInvokeEvery.write(7)
    console.log("every " + (await runner.autoInvokeEvery.read()))
})
