"""Reads Parquet files (one path a line on standard input) with Spark and says what each column holds, a JSON line a file, in the words of
values.py. Spark counts rows and nulls itself; the rest is of the rows that it hands out.
"""

import json
import sys

from pyspark.sql import SparkSession, functions

from values import summarise


def read(spark, path):
    frame = spark.read.parquet(path)
    found = summarise(frame.toArrow())
    rows, *counted = frame.agg(functions.count("*"), *(functions.count(functions.col(f"`{name}`")) for name in found)).first()
    for name, count in zip(found, counted):
        if [rows, rows - count] != found[name][:2]:
            found[name] = [rows, rows - count, f"the rows handed out differ: {found[name]}"]
    return found


def main():
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "3g")
             .config("spark.sql.caseSensitive", "true").config("spark.sql.shuffle.partitions", "1")
             .config("spark.log.level", "ERROR").getOrCreate())
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    print(json.dumps(["version", f"{spark.version} on JDK {java}"]), flush=True)
    for line in sys.stdin:
        path = line.rstrip("\n")
        print(json.dumps([path, read(spark, path)]), flush=True)
    spark.stop()


main()
