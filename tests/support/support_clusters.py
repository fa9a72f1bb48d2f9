"""Small logs of Helios and of Alibaba's GPU clusters, written out by hand."""

# ruff: noqa: E501

from __future__ import annotations

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
2000001,uQxYz,vcAbC,8,32,1,COMPLETED,2020-07-01 09:00:00,2020-07-01 09:03:20,2020-07-01 11:03:20,7200,200
2000002,uQxYz,vcAbC,0,1,1,FAILED,2020-07-01 09:01:00,2020-07-01 09:01:00,2020-07-01 09:01:00,0,0
2000003,uPqRs,vcDeF,16,64,2,NODE_FAIL,2020-07-01 09:02:00,2020-07-01 09:02:30,2020-07-01 09:04:30,120,30
2000004,uPqRs,vcDeF,1,4,1,SUSPENDED,2020-07-01 09:05:00,2020-07-01 09:05:10,2020-07-01 09:06:10,60,10
2000005,uPqRs,vcDeF,1,4,1,CANCELLED,2020-07-01 09:06:00,,2020-07-01 09:07:00,,60
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-9001,8000,32768,1,250,,BE,Failed,500000,500900,500030
openb-pod-9002,64000,262144,8,1000,V100M16|V100M32,LS,Running,500100,12902960,500100
openb-pod-9003,4000,8192,1,1000,,BE,Pending,500200,500260,
openb-pod-9004,4000,8192,0,0,,Burstable,Succeeded,500300,500360,500310
openb-pod-9005,4000,8192,2,1000,T4,LS,Running,400000,500000,400000
"""
SPOT_GPU = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
900001,7,A100-SXM4-80GB,16,8,4,120,86400,HP
900002,3,A10,8,1.0,20.0,5400,1312,Spot
900003,3,GPU-series-1,8,0.5,1,0,15897599,HP
"""
GENAI = """\
gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora
2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G1,63.0,26.0,1.0,30.0,M0,0
2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G1,63.0,26.0,1.0,30.0,M0,0
2024-11-15 18:17:06,INPAINTING,FAILED,3.5,G2,,,8.0,40.0,M1,2
2024-11-15 18:17:09,IMG_2_IMG,PENDING,0.0,G2,,,,,,0
"""
PAI_SAMPLE = """\
job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user
a1,1,0,6.0,0.5,T4,120,ua
a2,4,30,6.0,1,V100M32,3600,ub
a3,1,30,12.0,,CPU,0,ub
"""
PAI_TABLES = {
    "pai_job_table.csv": """\
j01,i01,ua,Terminated,1000095.0,1003702.0
j02,i02,ub,Failed,1000100.0,1000400.0
j03,i03,ub,Running,1000200.0,
j04,i04,uc,Waiting,1000300.0,0
j05,i05,uc,Terminated,1000400.0,1000900.0
""",
    "pai_task_table.csv": """\
j01,worker,4.0,Terminated,1000100.0,1003700.0,600.0,29.296875,50.0,T4
j01,ps,2.0,Terminated,1000098.0,1003700.0,400.0,20.0,,MISC
j02,worker,1.0,Failed,1000110.0,1000400.0,600.0,29.296875,800.0,V100M32
j03,worker,2.0,Running,1000210.0,,600.0,29.296875,25.0,P100
j04,worker,1.0,Waiting,0,0,600.0,29.296875,100.0,V100
j05,evaluator,1.0,Terminated,1000410.0,1000900.0,600.0,29.0,100.0,P100
j05,chief,1.0,Terminated,1000410.0,1000900.0,600.0,29.0,100.0,T4
""",
    "pai_instance_table.csv": """\
j01,worker,n1,w1,i01,Terminated,1000130.0,1003650.0,m1
j01,worker,n2,w2,i01,Failed,1000120.0,1000150.0,m1
j01,worker,n2,w2,i01,Terminated,1000200.0,1003690.0,m2
j01,ps,n3,w3,i01,Terminated,0,0,m2
j02,worker,n4,w4,i02,Failed,1000150.0,1000390.0,m2
j03,worker,n5,w5,i03,Running,1000260.0,,m2
""",
    "pai_group_tag_table.csv": """\
i01,ua,T4,g1,bert
i03,ub,,g2,ctr
i09,ub,,g2,
""",
}
CLUSTER_LOGS = {
    "pai_sample": ("pai", "log.csv", PAI_SAMPLE),
    "helios": ("helios", "log.csv", HELIOS),
    "openb": ("openb", "log.csv", OPENB),
    "spot_gpu": ("spot-gpu", "log.csv", SPOT_GPU),
    "genai": ("genai", "log.csv", GENAI),
}
"""Name -> (format, file name, text) of a log without a bad row."""
